"""Measures what a contract limits: the age of what a site shows, and logs kept for it.

The master alone is asked, by its own positions: a site that is away need not answer,
and what its clock says does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, cast, func, select

from masters.catalog import registered_snapshot
from masters.contracts import even_time
from masters.log import catalog, purge, ring
from sites import QualifiedName
from sites.names import parse
from sites.transfer.types import PgSnapshot

_at = registered_snapshot.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the snapshots of a contract show, and what it costs the master."""

    #: by snapshot that does not show all, when its oldest change was made that it does
    #: not show, in seconds of `even_time`
    waits: Mapping[str, float]
    #: bytes of the logs that are kept for them, if none is kept longer for another site
    log_bytes: int
    #: the snapshots for which these logs are kept
    kept_for: frozenset[str]
    #: by snapshot, its registered position, and since when it waits
    seen: Mapping[str, tuple[str, float | None]]
    #: those of the contract that were released, and not refreshed since
    released: frozenset[str]


def measure(connection: Connection, contract: Row[Any], now: float) -> Measured | None:
    """Look at the logs of a contract's snapshots.

    Parameters:
        contract: its row of the catalog.
        now: what `even_time.note` has returned.

    Returns:
        None if nothing is kept for them.
    """
    known = connection.execute(
        select(
            _at.snapshot,
            _at.table_schema,
            _at.table_name,
            _at.parents,
            cast(_at.position, Text).label("position"),
            _at.refreshed_at,
        )
        .where(_at.site_id == contract.site_id, _at.snapshot.in_(contract.snapshots))
        .order_by(_at.snapshot)
    ).all()
    mine = [one for one in known if one.position is not None]
    if not mine:
        return None
    waits = _waits(connection, mine, now)
    for one in mine:
        position_then, since = contract.seen.get(one.snapshot, (None, None))
        if since is not None and position_then == one.position:
            # A transaction with a smaller id may have ended later than those seen
            # before; and of a snapshot that was released, a purge has removed the
            # changes.
            waits[one.snapshot] = min(waits.get(one.snapshot, since), since)
    limited = contract.log_share is not None
    log_bytes, kept_for = _logs(connection, mine) if limited else (0, frozenset())
    return Measured(
        waits=waits,
        log_bytes=log_bytes,
        kept_for=kept_for,
        seen={one.snapshot: (one.position, waits.get(one.snapshot)) for one in mine},
        released=frozenset(
            one.snapshot
            for one in known
            if one.position is None and one.refreshed_at is not None
        ),
    )


def _waits(
    connection: Connection, mine: Sequence[Row[Any]], now: float
) -> dict[str, float]:
    """By snapshot that does not show all, when the oldest such change was made."""
    asked = {(one.position, table) for one in mine for table in _tables(one)}
    times = {
        (seen, table): [
            even_time.of_change(connection, xid, made_at, now)
            for xid, made_at in _oldest(connection, [table], seen)
        ]
        for seen, table in asked
    }
    found = {
        one.snapshot: [t for its in _tables(one) for t in times[one.position, its]]
        for one in mine
    }
    return {name: min(its) for name, its in found.items() if its}


def _tables(one: Row[Any]) -> list[QualifiedName]:
    return [QualifiedName(one.table_schema, one.table_name), *map(parse, one.parents)]


def _oldest(
    connection: Connection, tables: Sequence[QualifiedName], seen: str
) -> list[tuple[str, datetime | None]]:
    """The first transaction of each log that a position has not seen, and its time."""
    unseen = func.snaptide.oldest_unseen(
        sa.bindparam("log_table"), cast(sa.literal(seen), PgSnapshot())
    ).table_valued("xid", "made_at")
    wanted = select(cast(unseen.c.xid, Text), unseen.c.made_at)
    found = [
        connection.execute(wanted, {"log_table": log}).one()
        for log in catalog.find_logs(connection, tables)
    ]
    return [(xid, made_at) for xid, made_at in found if xid is not None]


def _logs(
    connection: Connection, mine: Sequence[Row[Any]]
) -> tuple[int, frozenset[str]]:
    """The size of the logs that would be purged further without these snapshots.

    A part that a purge can empty although they are there does not count.

    Returns:
        The size in bytes, and the snapshots for which they are kept.
    """
    needed: dict[str, int] = {}
    kept_for: set[str] = set()
    for one in mine:
        lowest = int(one.position.split(":")[0])
        for table in _tables(one):
            if lowest <= int(purge.horizon(connection, table)):
                kept_for.add(one.snapshot)
                for log in catalog.find_logs(connection, [table]):
                    needed[log] = min(lowest, needed.get(log, lowest))
    size = sum(
        ring.needed_bytes(connection, log, str(lowest))
        for log, lowest in needed.items()
    )
    return size, frozenset(kept_for)
