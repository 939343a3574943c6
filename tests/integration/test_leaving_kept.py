"""The policy keep: rows that leave are kept aside until someone removes them."""

from typing import Any

import pytest

import snapshots
from sites import Directory
from snapshots.definitions.errors import RowsKept
from snapshots.differences import comparison
from snaptide import migrate
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

TABLES = """
CREATE TABLE public.p (id int PRIMARY KEY, here bool);
CREATE TABLE public.c (
    id numeric PRIMARY KEY, p int REFERENCES public.p, code text UNIQUE, v numeric(9, 2)
);
CREATE INDEX ON public.c (p);
INSERT INTO public.p SELECT g, true FROM generate_series(1, 9) g;
INSERT INTO public.c SELECT g, g, 'code' || g, g FROM generate_series(1, 9) g;
"""


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, TABLES)
    log(hq, "p", "c")
    column_groups(hq, "c", {"v": "", "code": "", "p": ""})
    made: dict[str, Any] = {"master": "hq", "group": "g", "updatable": True}
    snapshots.create(jfk, "p", where="here", **made)
    snapshots.create(jfk, "c", follow=["p"], leaving="keep", **made)
    snapshots.refresh(jfk, "g")


def test_rows_that_leave_are_kept_and_come_back_as_ordinary_rows(hq, jfk):
    run(jfk, 'ALTER TABLE public."snap$_c" ADD note text')
    run(jfk, "UPDATE public.\"snap$_c\" SET note = 'ours' WHERE id = 2")
    settle(jfk)
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    run(hq, "DELETE FROM public.c WHERE id = 3")
    done = refresh(jfk, "g")
    assert (done["c"].left, done["c"].deleted) == (1, 2)
    (one,) = snapshots.list_kept(jfk)
    assert (one.snapshot, one.key, one.reason) == ("c", ("2",), "p 2")
    assert dict(one.values) == {
        "id": "2",
        "p": "2",
        "code": "code2",
        "v": "2.00",
        "note": "ours",
    }
    assert one.position == str(
        run(jfk, "SELECT position FROM snaptide.refresh_group")[0][0]
    )
    assert snapshots.describe_snapshot(jfk, "c").kept == 1
    assert_equal_to_master(jfk)
    # Its key and its unique value are free.
    run(hq, "UPDATE public.c SET code = 'gone' WHERE id = 2")
    run(hq, "UPDATE public.c SET code = 'code2' WHERE id = 4")
    run(jfk, "UPDATE public.c SET v = 0 WHERE id = 4")
    refresh(jfk, "g", method="cc")
    settle(jfk)
    assert_equal_to_master(jfk)
    # The same row by a key that is printed otherwise.
    run(hq, "UPDATE public.c SET id = 2.0 WHERE id = 2")
    run(hq, "UPDATE public.p SET here = true WHERE id = 2")
    refresh(jfk, "g")
    assert snapshots.list_kept(jfk, "c") == []
    assert_equal_to_master(jfk)
    run(jfk, "UPDATE public.c SET v = 5 WHERE id = 2")
    settle(jfk)
    assert_equal_to_master(jfk)


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "still there"])
def test_a_row_that_a_user_inserts_again_is_no_longer_kept(hq, jfk, *, gone):
    """Both sides have it then, so no refresh inserts it."""
    run(hq, "UPDATE public.p SET here = false WHERE id IN (2, 3)")
    refresh(jfk, "g")
    if gone:
        run(hq, "DELETE FROM public.c WHERE id = 2")
    run(jfk, "INSERT INTO public.c VALUES (2.0, 4, 'again', 1)")
    refresh(jfk, "g")
    assert [one.key for one in snapshots.list_kept(jfk)] == [("3",)]
    settle(jfk)
    back = [] if gone else [("2.0",)]
    assert [one.key for one in snapshots.list_kept(jfk)] == [*back, ("3",)]
    assert_equal_to_master(jfk)


def test_a_row_with_a_change_of_the_site_is_kept_after_the_answer(hq, jfk):
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    run(jfk, "UPDATE public.c SET v = 7 WHERE id = 2")
    assert refresh(jfk, "g")["c"].staying == {"pending": 1}
    assert snapshots.list_kept(jfk) == []
    settle(jfk)
    assert run(hq, "SELECT v FROM public.c WHERE id = 2") == [(7,)]
    assert [one.values["v"] for one in snapshots.list_kept(jfk)] == ["7.00"]
    assert_equal_to_master(jfk)


def test_unique_values_that_pass_on_and_rows_that_are_locked(hq, jfk):
    """The row is kept as it was, whatever the merge does to get its values free."""
    run(hq, "UPDATE public.p SET here = false WHERE id IN (2, 3)")
    run(hq, "UPDATE public.c SET code = NULL WHERE id = 2")
    run(hq, "UPDATE public.c SET code = 'code2' WHERE id = 5")
    with user(jfk) as someone:
        someone.execute("SELECT FROM public.c WHERE id = 3 FOR UPDATE")
        assert refresh(jfk, "g")["c"].staying == {"locked": 1}
    assert [one.values["code"] for one in snapshots.list_kept(jfk)] == ["code2"]
    settle(jfk)
    assert [one.key for one in snapshots.list_kept(jfk)] == [("3",), ("2",)]


def test_many_rows_on_executors(hq, jfk, monkeypatch):
    monkeypatch.setattr(comparison, "SMALL_WINDOW", 2)
    monkeypatch.setattr("snapshots.keys.ALWAYS_FEW", 1)
    run(hq, "UPDATE public.p SET here = false WHERE id < 6")
    refresh(jfk, "g", allow_mass_delete=True)
    reasons = {one.reason for one in snapshots.list_kept(jfk)}
    assert reasons == {f"p {n}" for n in range(1, 6)}
    assert_equal_to_master(jfk)


def test_kept_rows_are_listed_removed_and_never_dropped_unasked(hq, jfk, snaptide):
    run(hq, "UPDATE public.p SET here = false WHERE id < 4")
    snaptide.report("refresh", "jfk", "g", "--allow-mass-delete")
    listed = snaptide.report("snapshot", "kept", "jfk", "c", "--limit", "2")
    assert len(listed) == 2
    number = str(listed[0]["id"])
    assert (
        snaptide.report("snapshot", "remove-kept", "jfk", "c", number, "--yes")[
            "removed"
        ]
        == 1
    )
    with pytest.raises(RowsKept, match="2 rows that left snapshot c"):
        snapshots.drop(jfk, "c")
    with pytest.raises(migrate.SchemaInUse, match="rows that left snapshots"):
        migrate.downgrade(jfk, "base")
    assert (
        snaptide.report("snapshot", "remove-kept", "jfk", "c", "--all", "--yes")[
            "removed"
        ]
        == 2
    )
    snapshots.drop(jfk, "c")
