"""Step: edits rows at two airports and at the master, while no site sees another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from snaptide.demo.cast import THIS, Cast, cast
from snaptide.demo.errors import require
from snaptide.demo.queue import queued
from snaptide.demo.world import World

_DELAY = sql.SQL(
    "UPDATE flights SET dep_delay = %s, updated_at = clock_timestamp() WHERE {}"
).format(THIS)
_GATE = sql.SQL("UPDATE flights SET gate = %s WHERE {}").format(THIS)
_SELL = sql.SQL("UPDATE flights SET seats_sold = seats_sold + %s WHERE {}").format(THIS)
_PLANE = sql.SQL("UPDATE flights SET tailnum = %s WHERE {}").format(THIS)
_EVENING = (
    "UPDATE flights SET dep_delay = dep_delay + 30, updated_at = clock_timestamp()"
    " WHERE month = 1 AND day = 1 AND sched_dep_time >= 1800 AND dep_time IS NOT NULL"
)
_EXTRA_FLIGHT = (
    "INSERT INTO flights (year, month, day, sched_dep_time, sched_arr_time, carrier,"
    " flight, origin, dest, distance, hour, minute, time_hour, gate)"
    " VALUES (2013, 1, 1, 2350, 600, 'B6', 9001, 'JFK', 'LAX', 2475, 23, 50,"
    " '2013-01-02 04:00Z', 'T5')"
)
_WITHDRAW = sql.SQL("DELETE FROM flights WHERE {}").format(THIS)
_FOG = "UPDATE weather SET visib = 0.25 WHERE month = 1 AND day = 1"
_FOREIGN = "UPDATE flights SET origin = 'EWR' WHERE month = 1 AND day = 1"
_GATES = (
    "UPDATE flights SET gate = 'C' || mod(flight, 99) WHERE origin = 'EWR'"
    " AND month = 1 AND day = 1"
)
_MERGER = "UPDATE airlines SET name = 'Southwest Airlines Co.' WHERE carrier = 'FL'"
_NEW_PLANE = (
    "INSERT INTO planes (tailnum, year, type, manufacturer, model, engines, seats,"
    " engine) VALUES ('N787SN', 2013, 'Fixed wing multi engine', 'BOEING', '787-8', 2,"
    " 242, 'Turbo-fan')"
)

#: The planes that hq, the airport and finally the operator choose for one flight.
PLANES = ("N668DN", "N804JB", "N787SN")


@dataclass(frozen=True, slots=True)
class Edit:
    """One transaction of a user."""

    site: str
    what: str
    statement: str | sql.Composed
    values: Sequence[object] = ()


def tell(world: World) -> None:
    """Change rows at all sites, some of them the same rows, so that the queues fill."""
    jfk, lga = cast(world, "jfk"), cast(world, "lga")
    edits = [*_at_lga(lga), *_at_hq(jfk, lga), *_at_jfk(jfk)]
    world.screen.table(
        ["site", "a transaction", "rows"],
        [(edit.site, edit.what, _make(world, edit)) for edit in edits],
    )
    _change_ones_mind(world)
    _overstep(world)
    depth = {site.name: queued(world, site.name) for site in world.airports}
    world.screen.say("")
    world.screen.table(
        ["queued at", "transactions", "calls"],
        [(name, q.transactions, q.calls) for name, q in depth.items()],
    )
    for name, waiting in depth.items():
        made = sum(edit.site == name for edit in edits)
        require(
            waiting.transactions == made,
            f"{made} transactions at {name}, but {waiting.transactions} are queued.",
        )


def _at_lga(cast: Cast) -> list[Edit]:
    return [
        Edit(
            "lga", f"{cast.delayed} is 5 minutes late", _DELAY, (5, *cast.delayed.key)
        ),
        Edit("lga", f"{cast.sold}: 2 seats sold", _SELL, (2, *cast.sold.key)),
        Edit("lga", "fog all day long", _FOG),
    ]


def _at_hq(jfk: Cast, lga: Cast) -> list[Edit]:
    return [
        Edit("hq", f"{lga.delayed} is 50 minutes late", _DELAY, (50, *lga.delayed.key)),
        Edit("hq", f"{lga.sold}: 1 seat sold", _SELL, (1, *lga.sold.key)),
        Edit("hq", f"{jfk.delayed} is 10 minutes late", _DELAY, (10, *jfk.delayed.key)),
        Edit("hq", f"{jfk.moved} leaves from gate A1", _GATE, ("A1", *jfk.moved.key)),
        Edit("hq", f"{jfk.sold}: 5 seats sold", _SELL, (5, *jfk.sold.key)),
        Edit(
            "hq",
            f"{jfk.exchanged} is flown by {PLANES[0]}",
            _PLANE,
            (PLANES[0], *jfk.exchanged.key),
        ),
        Edit("hq", "gates of all EWR departures", _GATES),
        Edit("hq", "an airline has a new name", _MERGER),
        Edit("hq", "an airline has a new plane", _NEW_PLANE),
    ]


def _at_jfk(cast: Cast) -> list[Edit]:
    return [
        Edit(
            "jfk", f"{cast.delayed} is 20 minutes late", _DELAY, (20, *cast.delayed.key)
        ),
        Edit(
            "jfk", f"{cast.moved} leaves from gate B22", _GATE, ("B22", *cast.moved.key)
        ),
        Edit("jfk", f"{cast.sold}: 3 seats sold", _SELL, (3, *cast.sold.key)),
        Edit(
            "jfk",
            f"{cast.exchanged} is flown by {PLANES[1]}",
            _PLANE,
            (PLANES[1], *cast.exchanged.key),
        ),
        Edit("jfk", "every departure of the evening 30 minutes later", _EVENING),
        Edit("jfk", "an extra flight to LAX", _EXTRA_FLIGHT),
        Edit("jfk", f"{cast.withdrawn} is withdrawn", _WITHDRAW, cast.withdrawn.key),
    ]


def _make(world: World, edit: Edit) -> int:
    with world.application(edit.site) as session:
        rows = session.execute(edit.statement, edit.values).rowcount
    require(rows > 0, f"This edit at {edit.site} changed no row: {edit.what}.")
    return rows


def _change_ones_mind(world: World) -> None:
    """Roll a change back; the counts of the queues show that it queued no call."""
    with world.application("jfk") as session:
        session.execute(_EVENING)
        session.rollback()


def _overstep(world: World) -> None:
    """Try to move rows to another airport, which the snapshot refuses."""
    try:
        with world.application("jfk") as session:
            session.execute(_FOREIGN)
    except psycopg.errors.WithCheckOptionViolation as refused:
        message = refused.diag.message_primary
        world.screen.say(f"jfk may not move its flights to EWR: [italic]{message}[/]")
    else:
        require(False, "jfk was able to move its rows to another airport.")
