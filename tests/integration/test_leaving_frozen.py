"""The policy freeze: rows that leave can be read, and not changed, until drained."""

from typing import Any

import psycopg
import pytest

import deferred
import snapshots
from sites import Directory
from snapshots.definitions.errors import NothingToHold, UnknownPolicy
from snaptide import doctor
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import (
    assert_equal_to_master,
    column_groups,
    refresh,
    settle,
    user,
)

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    run(
        sites["hq"],
        'CREATE TABLE public.t (id int, "Part" numeric, v text, here bool,'
        ' PRIMARY KEY (id, "Part"))',
        "INSERT INTO public.t SELECT g, 1, 'v', true FROM generate_series(1, 9) g",
    )
    log(sites["hq"], "t")
    column_groups(sites["hq"], "t", {"v": "", "here": ""})
    made: dict[str, Any] = {"master": "hq", "where": "here", "updatable": True}
    snapshots.create(sites["jfk"], "t", leaving="freeze", **made)
    snapshots.refresh(sites["jfk"], "t")


def test_a_row_that_leaves_and_stays_cannot_be_changed(hq, jfk):
    run(hq, "UPDATE public.t SET here = false WHERE id IN (1, 2)")
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    assert refresh(jfk, "t")["t"].staying == {"pending": 1}
    assert run(jfk, "SELECT v FROM public.t WHERE id = 1") == [("mine",)]
    with user(jfk) as one:
        for change in (
            "UPDATE public.t SET v = 'again' WHERE id < 5",
            "UPDATE public.t SET id = 100 WHERE id = 1",
            "DELETE FROM public.t",
            (
                "INSERT INTO public.t VALUES (1, 1.00, 'x', true)"
                " ON CONFLICT (id, \"Part\") DO UPDATE SET v = 'x'"
            ),
        ):
            with pytest.raises(psycopg.Error, match="Row 1, 1 of t is frozen"):
                one.execute(change)
            one.rollback()
        one.execute("UPDATE public.t SET v = 'fine' WHERE id > 1")
        one.commit()
    # A column that was renamed is still found.
    run(jfk, 'ALTER TABLE public."snap$_t" RENAME "Part" TO piece')
    with user(jfk) as one, pytest.raises(psycopg.Error, match="frozen"):
        one.execute("DELETE FROM public.t")
    run(jfk, 'ALTER TABLE public."snap$_t" RENAME piece TO "Part"')
    settle(jfk)
    assert run(hq, "SELECT v FROM public.t WHERE id = 1") == [("mine",)]
    assert_equal_to_master(jfk)
    run(jfk, "UPDATE public.t SET v = 'free'")


def test_a_row_that_comes_back_is_free_again(hq, jfk):
    run(hq, "UPDATE public.t SET here = false WHERE id = 1")
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    refresh(jfk, "t")
    run(hq, "UPDATE public.t SET here = true WHERE id = 1")
    refresh(jfk, "t")
    run(jfk, "UPDATE public.t SET v = 'again' WHERE id = 1")
    settle(jfk)
    assert_equal_to_master(jfk)


def test_the_policy_can_be_changed_at_any_time(hq, jfk):
    run(hq, "UPDATE public.t SET here = false WHERE id = 1")
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    refresh(jfk, "t")
    assert snapshots.alter_leaving(jfk, "t", "drain").leaving == "drain"
    run(jfk, "UPDATE public.t SET v = 'again' WHERE id = 1")
    snapshots.alter_leaving(jfk, "t", "freeze")
    with pytest.raises(Exception, match="frozen"):
        run(jfk, "UPDATE public.t SET v = 'more' WHERE id = 1")
    run(jfk, 'ALTER TABLE public."snap$_t" DISABLE TRIGGER snaptide_frozen_update')
    for state, todo in (
        ("is disabled", 'ENABLE ALWAYS TRIGGER "snaptide_frozen_update"'),
        ("lacks", 'CREATE TRIGGER "snaptide_frozen_update"'),
    ):
        (one,) = [f for f in doctor.examine(jfk) if "frozen_update" in f.what]
        assert state in one.what
        assert "users can change rows that are frozen" in one.what
        assert todo in one.todo
        assert "refresh" not in one.todo
        run(jfk, 'DROP TRIGGER IF EXISTS snaptide_frozen_update ON public."snap$_t"')
    run(jfk, one.todo)
    assert not [f for f in doctor.examine(jfk) if "frozen_update" in f.what]
    with pytest.raises(Exception, match="frozen"):
        run(jfk, "UPDATE public.t SET v = 'more' WHERE id = 1")
    snapshots.drop(jfk, "t", force=True)
    made = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'frozen%'"
    assert run(jfk, made) == [(0,)]


def test_a_synchronous_or_read_only_snapshot(hq, jfk):
    with pytest.raises(NothingToHold):
        snapshots.create(
            jfk, "r", master="hq", table="t", where="here", leaving="freeze"
        )
    snapshots.create(jfk, "r", master="hq", table="t", where="here")
    with pytest.raises(NothingToHold):
        snapshots.alter_leaving(jfk, "r", "freeze")
    with pytest.raises(UnknownPolicy, match=r"'melt'.*drain, keep, freeze, park"):
        snapshots.alter_leaving(jfk, "r", "melt")
    assert deferred.push(jfk).errors == 0
