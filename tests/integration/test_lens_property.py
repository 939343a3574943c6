"""Through a lens that loses something: in groups as one by one, and as retried.

The lens splits a name at its spaces and forgets what comes after the second part, so
that the master has rows which it would not make of the names that the site shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from psycopg import IntegrityError

import deferred
import snapshots
from deferred.pushing import apply_groups
from deferred.pushing.compiled import deliver_together
from deferred.queues import target_columns
from sites import Directory, Site
from sites.tables.table import describe
from tests.linked_table import as_refresh, link, run

#: Logs that are pushed.
EXAMPLES = int(os.environ.get("SNAPTIDE_COMPILED_CASES", "6"))

LENS: dict[str, Any] = {
    "gone": ["name"],
    "sets": {
        "first": "split_part(name, ' ', 1)",
        "last": "split_part(name, ' ', 2)",
    },
    "backs": {"name": "first || ' ' || last"},
}
#: At the master. The lens would make of what the site shows: the first, and the fifth.
PARTS = [("A", "B"), ("A ", "B"), ("A", "B C"), ("A B", "C"), ("A", ""), ("A ", "B")]

keys = st.integers(1, 7)
names = st.sampled_from(["'A B'", "'A  B'", "'A B C'", "'A '", "'C D'", "NULL"])
towns = st.sampled_from(["'JFK'", "'LGA'"])


@st.composite
def statements(draw: st.DrawFn) -> str:
    """One statement of a user's at the site."""
    key, name, town = draw(keys), draw(names), draw(towns)
    insert = "INSERT INTO people"
    both = f"UPDATE people SET name = {name}, town = {town} WHERE id = {key}"
    return draw(
        st.sampled_from(
            [
                f"UPDATE people SET name = {name} WHERE id = {key}",
                f"UPDATE people SET town = {town} WHERE id = {key}",
                both,
                f"DELETE FROM people WHERE id = {key}",
                f"{insert} VALUES ({key}, {name}, {town}) ON CONFLICT DO NOTHING",
                f"UPDATE people SET id = {draw(keys)} + 100 WHERE id = {key}",
                f"UPDATE people SET id = id - 100 WHERE id = {key} + 100",
            ]
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What happens before the push: at the site, in order, and at the master."""

    transactions: Sequence[Sequence[str]]
    at_master: Sequence[str] = ()


logs = st.builds(
    Log,
    transactions=st.lists(
        st.lists(statements(), min_size=1, max_size=2), min_size=2, max_size=12
    ),
    at_master=st.lists(
        keys.flatmap(
            lambda key: st.sampled_from(
                [
                    f"UPDATE people SET first = 'A', last = 'B C' WHERE id = {key}",
                    f"UPDATE people SET last = 'E' WHERE id = {key}",
                    f"UPDATE people SET town = 'SFO' WHERE id = {key}",
                    f"DELETE FROM people WHERE id = {key}",
                ]
            )
        ),
        max_size=2,
    ),
)
groupings = st.fixed_dictionaries(
    {
        "group_max_calls": st.sampled_from([3, 10_000]),
        "retry_threshold": st.sampled_from([0, 4, 100]),
        "bulk_threshold": st.sampled_from([0, 20]),
        "parallelism": st.sampled_from([0, 2]),
    }
)

THERE_AND_BACK = [
    ["UPDATE people SET name = 'C D' WHERE id = 2"],
    ["UPDATE people SET name = 'A  B' WHERE id = 2"],
]
WAYS = {
    "there and back": THERE_AND_BACK,
    "and on": [*THERE_AND_BACK, ["UPDATE people SET name = 'A B' WHERE id = 2"]],
    "deleted and made again": [
        ["DELETE FROM people WHERE id = 4"],
        ["INSERT INTO people VALUES (4, 'A B C', 'JFK')"],
        ["UPDATE people SET town = 'LGA' WHERE id = 4"],
    ],
    "moved": [
        ["UPDATE people SET id = 103 WHERE id = 3"],
        ["UPDATE people SET name = 'C D' WHERE id = 103"],
    ],
}


@pytest.fixture
def world(make_sites: Callable[..., Directory]) -> Directory:
    """A master that has split names, and a site that shows them whole."""
    sites = make_sites("hq", "jfk")
    hq, jfk = sites["hq"], sites["jfk"]
    queue = link(sites, "people", "id int PRIMARY KEY, name text, town text")
    with hq.begin() as there, jfk.begin() as here:  # as its refresh does
        target_columns.settle(here, queue, describe(there, queue.target))
    run(hq, "ALTER TABLE people ADD first text, ADD last text")
    snapshots.map_shape(hq, "people", **LENS)
    run(hq, "ALTER TABLE people DROP name")
    return sites


@pytest.mark.parametrize("way", WAYS)
def test_changes_of_one_row_find_no_conflict(world: Directory, way: str) -> None:
    log = Log(transactions=WAYS[way])
    one_by_one = _pushed(world, log, group_max_calls=0)
    assert one_by_one[1:] == (len(log.transactions), [])
    assert one_by_one == _pushed(world, log)
    assert one_by_one == _pushed(world, log, transaction_count=1)
    assert one_by_one == _retried(world, log)


def test_a_row_that_is_changed_often_is_tried_in_few_pieces(
    world: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In halves: one piece for each change would be as many calls of one another."""
    often = [[f"UPDATE people SET town = '{n}' WHERE id = 3"] for n in range(160)]
    _begin(world, Log(transactions=often))
    pieces: list[int] = []

    def counted(shipment: Any, sender: Any, group: Any, *rest: Any, **how: Any) -> Any:
        pieces.append(len(group))
        return deliver_together(shipment, sender, group, *rest, **how)

    monkeypatch.setattr(apply_groups, "deliver_together", counted)
    assert deferred.push(world["jfk"]).transactions == len(often)
    assert pieces == [160, 80, 80]
    assert _parked(world["hq"]) == []
    assert _rows(world["hq"])[2] == (3, "A", "B C", "159")


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink would take longer than to read
)
@given(log=logs, grouping=groupings)
@example(log=Log(transactions=WAYS["and on"]), grouping={})
def test_all_ways_leave_the_same(
    world: Directory, log: Log, grouping: dict[str, Any]
) -> None:
    one_by_one = _pushed(world, log, group_max_calls=0)
    why = run(world["hq"], "SELECT error_message FROM snaptide.error_transaction")
    assert one_by_one == _pushed(world, log, **grouping), why
    assert one_by_one == _retried(world, log), why


def _begin(sites: Directory, log: Log) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    deferred.push(jfk)  # what an example before it left, if that failed
    deferred.delete_errors(hq)
    for site in (hq, jfk):
        as_refresh(site, "DELETE FROM people")
    for key, (first, last) in enumerate(PARTS, 1):
        values = f"VALUES ({key}, '{first} {last}', 'JFK')"
        as_refresh(jfk, f"INSERT INTO people {values}")
        values = f"VALUES ({key}, 'JFK', '{first}', '{last}')"
        as_refresh(hq, f"INSERT INTO people {values}")
    for transaction in log.transactions:
        with suppress(IntegrityError):
            run(jfk, *transaction)
    for statement in log.at_master:
        as_refresh(hq, statement)


def _pushed(sites: Directory, log: Log, **options: Any) -> tuple[Any, ...]:
    """The rows at the master, how many transactions came, and what was parked."""
    _begin(sites, log)
    pushed = 0
    while report := deferred.push(sites["jfk"], **options):
        pushed += report.transactions
        if not report.transactions or "transaction_count" not in options:
            break
    return _rows(sites["hq"]), pushed, _parked(sites["hq"])


def _retried(sites: Directory, log: Log) -> tuple[Any, ...]:
    """The same, if all that changes rows of before is in conflict first.

    One by one, so that all lands together: what is parked by then is not looked at.
    """
    hq = sites["hq"]
    _begin(sites, log)
    towns = run(hq, "SELECT id, town FROM people")
    as_refresh(hq, "UPDATE people SET town = 'held'")
    pushed = deferred.push(sites["jfk"], group_max_calls=0).transactions
    for key, town in towns:
        as_refresh(hq, f"UPDATE people SET town = '{town}' WHERE id = {key}")
    deferred.retry_errors(hq)
    return _rows(hq), pushed, _parked(hq)


def _rows(hq: Site) -> list[tuple[Any, ...]]:
    return run(hq, "SELECT id, first, last, town FROM people ORDER BY id")


def _parked(hq: Site) -> list[tuple[Any, ...]]:
    """The kinds of the changes of each parked transaction."""
    return run(
        hq,
        "SELECT dense_rank() OVER (ORDER BY e.batch_no, e.order_no), c.kind FROM"
        " snaptide.error_transaction e JOIN snaptide.error_call c"
        " ON c.error_id = e.id ORDER BY 1, 2",
    )
