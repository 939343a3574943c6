"""Step: shows conflicts that three rules settled, and settles a fourth by hand."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select

import deferred
from masters.catalog import resolution_record
from snaptide.demo.cast import cast, value_of
from snaptide.demo.errors import require
from snaptide.demo.servers import MASTER
from snaptide.demo.steps.offline import PLANES
from snaptide.demo.world import World

#: The column of each column group that the table shows.
_SHOWN = {"times": "dep_delay", "gate": "gate", "seats": "seats_sold"}


def tell(world: World) -> None:
    """Show what the rules decided, then edit and retry the parked transaction."""
    records = _records(world)
    world.screen.table(
        ["flight", "column", "old", "at the site", f"at {MASTER}", "now", "settled by"],
        [_row(record) for record in records],
    )
    _check_rules(world)
    _retry(world)


def _records(world: World) -> list[Row[Any]]:
    with world.hq.begin() as connection:
        query = select(resolution_record).order_by(resolution_record.c.id)
        return list(connection.execute(query))


def _row(record: Row[Any]) -> list[object]:
    key, column = record.row_key, _SHOWN[record.reference]
    sides = (
        record.old_values,
        record.new_values,
        record.current_values,
        record.result_values,
    )
    return [
        f"{key['carrier']} {key['flight']} ({record.origin})",
        column,
        *((side or {}).get(column) for side in sides),
        f"{record.method}: {record.decision.replace('_', ' ')}",
    ]


def _check_rules(world: World) -> None:
    jfk, lga = cast(world, "jfk"), cast(world, "lga")
    expected: list[tuple[str, Any, object]] = [
        ("dep_delay", jfk.delayed, 20),  # the airport was later
        ("dep_delay", lga.delayed, 50),  # hq was later
        ("gate", jfk.moved, "B22"),  # an airport goes before hq
        ("seats_sold", jfk.sold, 5 + 3),
        ("seats_sold", lga.sold, 1 + 2),
    ]
    for column, flight, value in expected:
        found = value_of(world, MASTER, column, flight)
        require(found == value, f"{column} of {flight} is {found} at hq, not {value}.")


def _retry(world: World) -> None:
    parked = deferred.list_errors(world.hq)
    require(len(parked) == 1, f"{len(parked)} transactions are parked, not 1.")
    number = str(parked[0].id)
    world.screen.say("\nNo rule covers the plane of a flight, so a person decides:")
    world.command("errors", "show", MASTER, number)
    edit = f"flights.tailnum={PLANES[2]}"
    world.command("errors", "retry", MASTER, number, "--edit", edit)
    exchanged = cast(world, "jfk").exchanged
    found = value_of(world, MASTER, "tailnum", exchanged)
    require(found == PLANES[2], f"{exchanged} is flown by {found}, not {PLANES[2]}.")
    require(not deferred.list_errors(world.hq), "The error queue is not empty.")
