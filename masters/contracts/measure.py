"""Measures what a contract limits: the age of what a site shows, and logs kept for it.

The master alone is asked, by its own positions: a site that is away need not answer,
and what its clock says does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, cast, func, select

from masters.catalog import registered_snapshot
from masters.contracts import even_time
from masters.log import catalog, purge, ring
from sites import QualifiedName
from sites.capture import position
from sites.catalog import SCHEMA
from sites.names import parse
from sites.transfer.types import PgSnapshot, Xid8

_at = registered_snapshot.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the snapshots of a contract show, and what it costs the master."""

    #: their registered positions, each with the snapshot
    shown: tuple[str, ...]
    #: when the oldest change was made that they do not show, in seconds of
    #: `even_time`; None if they show all
    waits_since: float | None
    #: of the logs that are kept for them, if none is kept longer for another site
    log_bytes: int


def measure(connection: Connection, contract: Row[Any], now: float) -> Measured | None:
    """Look at the logs of a contract's snapshots.

    Parameters:
        contract: its row of the catalog.
        now: what `even_time.note` has returned.

    Returns:
        None if nothing is kept for them.
    """
    mine = connection.execute(
        select(
            _at.snapshot,
            _at.table_schema,
            _at.table_name,
            _at.parents,
            cast(_at.position, Text).label("position"),
        )
        .where(
            _at.site_id == contract.site_id,
            _at.snapshot.in_(contract.snapshots),
            _at.position.is_not(None),
        )
        .order_by(_at.snapshot)
    ).all()
    if not mine:
        return None
    shown = tuple(f"{one.snapshot} {one.position}" for one in mine)
    waits = _waits_since(connection, mine, now)
    before = contract.waits_since
    if before is not None and shown == tuple(contract.shown):
        # A transaction with a smaller id may have ended later than those seen before;
        # and of a site that was released, a purge has removed the changes.
        waits = before if waits is None else min(waits, before)
    return Measured(
        shown=shown,
        waits_since=waits,
        log_bytes=0 if contract.log_share is None else _log_bytes(connection, mine),
    )


def _waits_since(
    connection: Connection, mine: Sequence[Row[Any]], now: float
) -> float | None:
    times = [
        even_time.of_change(connection, xid, made_at, now)
        for seen, tables in _by_position(mine).items()
        for xid, made_at in _oldest(connection, tables, seen)
    ]
    return min(times, default=None)


def _by_position(mine: Sequence[Row[Any]]) -> dict[str, list[QualifiedName]]:
    """The tables whose logs are read from a position on."""
    found: dict[str, list[QualifiedName]] = {}
    for one in mine:
        found.setdefault(one.position, []).extend(_tables(one))
    return found


def _tables(one: Row[Any]) -> list[QualifiedName]:
    return [QualifiedName(one.table_schema, one.table_name), *map(parse, one.parents)]


def _oldest(
    connection: Connection, tables: Sequence[QualifiedName], seen: str
) -> list[tuple[str, datetime | None]]:
    """The first transaction of each log that a position has not seen, and its time."""
    found = []
    given = cast(sa.literal(seen), PgSnapshot())
    for name in catalog.find_logs(connection, tables):
        log = sa.table(
            name,
            sa.column("xid", Xid8()),
            sa.column("at", sa.DateTime(timezone=True)),
            schema=SCHEMA,
        )
        # Apart, so that each of them is found by the index of transactions.
        firsts = [
            select(func.min(log.c.xid)).where(which).scalar_subquery()
            for which in (
                position.begun_since(log.c.xid, given),
                position.open_at(log.c.xid, given),
            )
        ]
        xid = connection.scalar(select(cast(func.least(*firsts), Text)))
        if xid is not None:
            its = select(func.min(log.c.at)).where(log.c.xid == position.xid8(xid))
            found.append((str(xid), connection.scalar(its)))
    return found


def _log_bytes(connection: Connection, mine: Sequence[Row[Any]]) -> int:
    """The size of the logs that would be purged further without these snapshots.

    A part that a purge can empty although they are there does not count.
    """
    needed: dict[str, int] = {}
    for one in mine:
        lowest = int(one.position.split(":")[0])
        for table in _tables(one):
            if lowest <= int(purge.horizon(connection, table)):
                for log in catalog.find_logs(connection, [table]):
                    needed[log] = min(lowest, needed.get(log, lowest))
    return sum(
        ring.needed_bytes(connection, log, str(lowest))
        for log, lowest in needed.items()
    )
