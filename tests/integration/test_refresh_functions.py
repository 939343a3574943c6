"""Functions that a condition calls, replaced at the master where no log sees it."""

from typing import Any

import pytest

import snapshots
from sites import Directory
from snapshots.errors import ConditionBroken
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

NEAR = """
CREATE OR REPLACE FUNCTION public."is Near"(n int) RETURNS bool IMMUTABLE LANGUAGE sql
AS 'SELECT n < {}'
"""


@prepared_once("hq", "jfk")
def near(sites: Directory) -> None:
    """Snapshots whose conditions call a function: t itself, c of its parent t."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        NEAR.format(3),
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "CREATE TABLE public.c (id int PRIMARY KEY, t int REFERENCES public.t)",
        "INSERT INTO public.t SELECT g, 'one' FROM generate_series(1, 5) g",
        "INSERT INTO public.c SELECT g, g FROM generate_series(1, 5) g",
    )
    log(hq, "t", "c")
    # The view of a snapshot calls it, too: this one accepts all that a refresh brings.
    run(jfk, NEAR.format(9))
    snapshots.create(jfk, "t", master="hq", group="g", where='"is Near"(id)')
    in_t = 'EXISTS (SELECT FROM t WHERE t.id = c.t AND "is Near"(t.id))'
    snapshots.create(jfk, "c", master="hq", group="g", where=in_t)
    refresh(jfk, "g")


@pytest.mark.parametrize("change", ["", "UPDATE public.t SET v = 'two' WHERE id = 1"])
def test_the_next_refresh_compares_all(near: Directory, change: str) -> None:
    hq, jfk = near["hq"], near["jfk"]
    run(hq, *filter(None, [change]), NEAR.format(5))
    done = refresh(jfk, "g")
    assert {(one.method, one.inserted) for one in done.values()} == {("complete", 2)}
    assert_equal_to_master(jfk)
    run(hq, "UPDATE public.t SET v = 'three' WHERE id = 1")
    assert {one.method for one in refresh(jfk, "g").values()} == {"fast"}
    assert_equal_to_master(jfk)


def test_one_that_is_gone_is_named_with_the_snapshot(near: Directory) -> None:
    hq, jfk = near["hq"], near["jfk"]
    run(hq, 'ALTER FUNCTION public."is Near"(int) RENAME TO near')
    with pytest.raises(ConditionBroken, match=r'Snapshot c: .* public."is Near"'):
        refresh(jfk, "g")
    with pytest.raises(ConditionBroken, match=r'Snapshot c: .* public."is Near"'):
        snapshots.check(jfk, "g")
    run(hq, 'ALTER FUNCTION public.near(int) RENAME TO "is Near"')
    refresh(jfk, "g")
    assert_equal_to_master(jfk)


def test_a_value_of_an_enum_is_renamed(sites: Directory) -> None:
    """The condition is a text, which PostgreSQL does not change."""
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, "CREATE TYPE public.state AS ENUM ('open', 'paid')")
    run(
        hq,
        "CREATE TABLE public.bill (id int PRIMARY KEY, state public.state)",
        "INSERT INTO public.bill VALUES (1, 'open'), (2, 'paid')",
    )
    log(hq, "bill")
    made: dict[str, Any] = {"master": "hq", "updatable": True}
    snapshots.create(jfk, "bill", where="state = 'open'", **made)
    snapshots.refresh(jfk, "bill")
    rename = "ALTER TYPE public.state RENAME VALUE 'open' TO 'due'"
    run(hq, rename, "UPDATE public.bill SET state = 'due' WHERE id = 2")
    with pytest.raises(ConditionBroken, match=r"Snapshot bill: .*'open'"):
        snapshots.refresh(jfk, "bill")
    run(jfk, rename)
    snapshots.alter_condition(jfk, "bill", where="state = 'due'")
    snapshots.refresh(jfk, "bill")
    assert_equal_to_master(jfk)


def test_one_that_is_made_again_as_it_was_changes_nothing(near: Directory) -> None:
    hq, jfk = near["hq"], near["jfk"]
    run(hq, NEAR.format(3))
    assert {one.method for one in refresh(jfk, "g").values()} == {"fast"}
