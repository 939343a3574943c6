"""Cells of docs/reference/column-changes.md: a site that was away during two changes.

It has changes of all kinds on the way, and its snapshot stays as it is.
"""

from dataclasses import dataclass
from typing import Any

import pytest

import deferred
import snapshots
from sites import Directory, Site
from snapshots.definitions.errors import DifferentTypes
from snapshots.errors import ColumnChanged
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")

MOOD = "CREATE TYPE public.mood AS ENUM ('good')"
COLUMNS = (
    "id int PRIMARY KEY, name text, label varchar(8), qty int, price numeric(8,2),"
    " mood public.mood"
)


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    """A partitioned table and an updatable snapshot, with a change that is parked."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, MOOD)
    run(
        hq,
        MOOD,
        f"CREATE TABLE public.goods ({COLUMNS}) PARTITION BY RANGE (id)",
        "CREATE TABLE public.low PARTITION OF goods FOR VALUES FROM (0) TO (100)",
        "INSERT INTO public.goods SELECT n, 'n' || n, 'l', n, n, 'good'"
        " FROM generate_series(1, 9) n",
    )
    log(hq, "goods")
    snapshots.create(jfk, "goods", master="hq", updatable=True)
    snapshots.refresh(jfk, "goods")
    run(hq, "UPDATE public.goods SET name = 'theirs' WHERE id = 3")
    run(jfk, "UPDATE public.goods SET name = 'mine' WHERE id = 3")
    assert deferred.push(jfk).errors == 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What the master does, and which rows of the site's changes are parked then."""

    statements: tuple[str, ...]
    parked: frozenset[int] = frozenset({2})
    held_back: int = 0
    #: the change that was parked before can be applied then
    retried: bool = True


CELLS = {
    "nullable": Cell(statements=("ALTER TABLE goods ADD more text",)),
    "default": Cell(statements=("ALTER TABLE goods ADD more text DEFAULT 'new'",)),
    "not null": Cell(
        statements=("ALTER TABLE goods ADD more text NOT NULL DEFAULT 'new'",)
    ),
    "required": Cell(
        statements=(
            "ALTER TABLE goods ADD more text NOT NULL DEFAULT 'new'",
            "ALTER TABLE goods ALTER more DROP DEFAULT",
        ),
        parked=frozenset({2, 10}),
    ),
    "wider": Cell(
        statements=(
            "ALTER TABLE goods ALTER qty TYPE bigint, ALTER label TYPE text",
            "UPDATE goods SET qty = 5000000000 WHERE id = 6",
            "UPDATE goods SET label = 'longer than eight' WHERE id = 7",
        ),
        held_back=2,
    ),
    "narrower": Cell(
        statements=("ALTER TABLE goods ALTER price TYPE numeric(8,1)",),
        parked=frozenset({2, 10}),
    ),
    # The site's old values are others than the master's by then.
    "using": Cell(
        statements=("ALTER TABLE goods ALTER qty TYPE int USING qty * 10",),
        parked=frozenset({1, 2, 4}),
        retried=False,
    ),
    "enum": Cell(
        statements=(
            "ALTER TYPE public.mood ADD VALUE 'bad'",
            "UPDATE goods SET mood = 'bad' WHERE id = 6",
        ),
    ),
    "partition": Cell(
        statements=(
            "CREATE TABLE high PARTITION OF goods FOR VALUES FROM (100) TO (200)",
            "INSERT INTO high (id, name) VALUES (150, 'direct')",
        ),
    ),
}


@pytest.mark.parametrize("what", CELLS)
def test_a_site_that_was_away(hq: Site, jfk: Site, what: str) -> None:
    cell = CELLS[what]
    run(jfk, "UPDATE public.goods SET name = 'mine' WHERE id = 1")
    run(jfk, "UPDATE public.goods SET name = 'mine' WHERE id = 2")
    run(jfk, "INSERT INTO public.goods (id, name, price) VALUES (10, 'mine', 1.25)")
    run(hq, "UPDATE public.goods SET name = 'theirs' WHERE id = 2")
    for statement in cell.statements:
        run(hq, statement)
    run(hq, "ALTER TABLE public.goods ADD later int DEFAULT 1")
    run(jfk, "UPDATE public.goods SET name = 'after' WHERE id = 4")

    report = deferred.push(jfk)
    assert report.transactions == 4
    errors = {
        int(str((call.new or call.old or {})["id"])): error.id
        for error in deferred.list_errors(hq)
        for call in deferred.show_error(hq, error.id).calls
    }
    assert errors.keys() == {3} | cell.parked
    sent = {1: "mine", 2: "theirs", 4: "after"}
    expected = [
        (id_, f"n{id_}" if id_ in cell.parked - {2} else name)
        for id_, name in sent.items()
    ]
    seen = "SELECT id, name FROM public.goods WHERE id IN (1, 2, 4) ORDER BY id"
    assert run(hq, seen) == expected

    made: dict[str, Any] = {"table": "goods", "master": "hq", "updatable": True}
    if what == "enum":
        with pytest.raises(ColumnChanged, match="for which goods has no place"):
            snapshots.refresh(jfk, "goods")
        with pytest.raises(DifferentTypes):
            snapshots.create(jfk, "fresh", **made)
        run(jfk, "ALTER TYPE public.mood ADD VALUE 'bad'")
    found = snapshots.refresh(jfk, "goods")
    assert found.behind == ()
    assert [one.held_back for one in found.snapshots] == [cell.held_back]
    assert run(jfk, seen) == expected

    run(hq, "UPDATE public.goods SET name = 'n3' WHERE id = 3")
    [again] = deferred.retry_errors(hq, [errors[3]])
    assert again.applied == cell.retried

    snapshots.create(jfk, "fresh", **made)
    settle(jfk)
    if what == "wider":
        snapshots.alter_columns(jfk, "goods", widen=["qty", "label"])
        settle(jfk)
    assert_equal_to_master(jfk)
