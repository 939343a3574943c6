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
from snapshots.steps import STEPS, WINDOW
from snaptide.asking import asking

#: Stop counting at so many log rows: a number this large says enough.
MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Changes of the master that a refresh group does not show."""

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
    tables = connection.execute(
        select(snapshot.master_schema, snapshot.master_table)
        .where(snapshot.refresh_group == group.name)
        .distinct()
    ).all()
    try:
        with asking(site.peer(group.master)) as home:
            identity.read(home, partner=True)
            return _lag_at(home, [tuple(row) for row in tables], group.seen)
    except SnaptideError:
        return None


def _lag_at(home: Connection, tables: list[tuple[str, str]], seen: str) -> Lag | None:
    named = sa.tuple_(snapshot_log.c.table_schema, snapshot_log.c.table_name)
    logs = home.scalars(select(snapshot_log.c.log_table).where(named.in_(tables)))
    behind = [_rows_behind(log, seen) for log in logs]
    if not behind:
        return None
    rows = sa.union_all(*behind).limit(MOST).subquery()
    counted = select(func.count(), func.count(rows.c.xid.distinct())).select_from(rows)
    found = home.execute(counted).one()
    return Lag(rows=found[0], transactions=found[1])


def _rows_behind(log: str, seen: str) -> sa.Select[Any]:
    table = sa.table(log, sa.column("xid", Xid8()), schema=SCHEMA)
    return select(table.c.xid).where(position.since(table.c.xid, seen))
