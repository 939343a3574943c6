"""How far a refresh group is behind its master."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from masters.catalog import snapshot_log
from sites import Site
from sites.capture import position
from sites.catalog import SCHEMA
from sites.errors import SnaptideError
from sites.sessions import identity
from sites.transfer.types import Xid8
from snapshots import catalog
from snapshots.definitions.refresh_notes import STEPS, WINDOW
from snaptide.asking import asking

#: Stop counting at so many log rows: a number this large says enough.
MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Changes of the master that a refresh group does not show.

    For a snapshot that stays behind, those since the moment that it shows count.
    """

    #: log rows of the master tables, also for rows that no snapshot of the group shows
    rows: int
    transactions: int


#: The steps of a refresh that follow the moment of the master that it brings.
_AFTER = STEPS[STEPS.index(WINDOW) :]


def old_at_end(steps: Mapping[str, float]) -> float:
    """How many seconds old what a refresh brought was when it ended, at most.

    Parameters:
        steps: the seconds of each; if it found nothing new, none of these is there.
    """
    return sum(steps.get(step, 0.0) for step in _AFTER)


def lag_of(connection: Connection, site: Site, group: Any) -> Lag | None:
    """How far a group is behind; None when its master cannot say.

    Parameters:
        group: its name and master, and its position as text in `seen`.
    """
    if group.seen is None:
        return None
    snapshot = catalog.snapshot.c
    own = sa.cast(snapshot.position, sa.Text)
    members = connection.execute(
        select(
            snapshot.master_schema,
            snapshot.master_table,
            func.coalesce(own, group.seen),
        ).where(snapshot.refresh_group == group.name)
    )
    tables: dict[tuple[str, str], str] = {}
    for schema, name, seen in members:
        before = tables.get((schema, name), seen)
        tables[schema, name] = min(before, seen, key=position.end)
    try:
        with asking(site.peer(group.master)) as home:
            identity.read(home, partner=True)
            return _lag_at(home, tables)
    except SnaptideError:
        return None


def _lag_at(home: Connection, tables: Mapping[tuple[str, str], str]) -> Lag | None:
    """How many log rows tables have since the positions that are given with them."""
    log = snapshot_log.c
    named = sa.tuple_(log.table_schema, log.table_name)
    logs = home.execute(
        select(log.table_schema, log.table_name, log.log_table).where(
            named.in_([*tables])
        )
    )
    behind = [
        _rows_behind(log_table, tables[schema, name])
        for schema, name, log_table in logs
    ]
    if not behind:
        return None
    rows = sa.union_all(*behind).limit(MOST).subquery()
    counted = select(func.count(), func.count(rows.c.xid.distinct())).select_from(rows)
    found = home.execute(counted).one()
    return Lag(rows=found[0], transactions=found[1])


def _rows_behind(log: str, seen: str) -> sa.Select[Any]:
    table = sa.table(log, sa.column("xid", Xid8()), schema=SCHEMA)
    return select(table.c.xid).where(position.since(table.c.xid, seen))
