"""Purging snapshot logs of changes that every registered snapshot has seen."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, Text, cast, func, select, update

from masters.catalog import registered_snapshot, snapshot_log
from masters.log import ring
from masters.rules import table_rules
from sites import QualifiedName, Site, faults, identity, position

#: How long deletes stay in a log if rules ask when a row was deleted.
DELETES_KEPT = timedelta(days=30)

#: How often a partition that a writer holds is tried before it is left for later.
ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPurgeReport:
    """What a purge did to one snapshot log."""

    table: str
    #: partitions emptied
    emptied: int
    #: partitions that could have been emptied, but a writer held them
    busy: int
    #: the oldest transaction whose rows are still needed
    horizon: str


def purge_snapshot_logs(
    site: Site, *, deletes_kept: timedelta = DELETES_KEPT
) -> list[LogPurgeReport]:
    """Empty the partitions of all logs that no registered snapshot needs.

    A partition is emptied when every transaction in it is older than every registered
    position and than every open transaction. Writers wait at most 50 ms. (Oracle
    removes rows as soon as the slowest snapshot has them; Snaptide waits until it has
    the whole partition.) If the rules of a table ask when a row was deleted
    (informix_timestamp), its deletes stay longer, as in Informix's delete table.

    Parameters:
        deletes_kept: how long those deletes stay, from the time of the delete.
    """
    with site.transaction() as connection:
        identity.read(connection)
        logs = connection.execute(select(snapshot_log).order_by("id")).all()
    return [_purge(site, log, deletes_kept) for log in logs]


def horizon(connection: Connection, log_id: int) -> str:
    """The oldest transaction that a snapshot, or a current reader, may ask for."""
    positions = select(
        func.min(func.pg_snapshot_xmin(registered_snapshot.c.position))
    ).where(registered_snapshot.c.log_id == log_id)
    now = func.pg_snapshot_xmin(func.pg_current_snapshot())
    lowest = func.least(positions.scalar_subquery(), now)
    return str(connection.scalar(select(cast(lowest, Text))))


def _purge(site: Site, log: Row[Any], deletes_kept: timedelta) -> LogPurgeReport:
    table = QualifiedName(log.table_schema, log.table_name)
    with site.transaction() as connection:
        asked = table_rules.load(connection, table).ask_when_deleted
        ring.forget_deletes(
            connection, log.log_table, deletes_kept if asked else timedelta(0)
        )
        limit = horizon(connection, log.id)
        slots = ring.full_slots(connection, log.log_table, limit)
    faults.point("log_purge.after_look")
    emptied = sum(_empty(site, log, slot, limit, asked=asked) for slot in slots)
    return LogPurgeReport(
        table=str(table),
        emptied=emptied,
        busy=len(slots) - emptied,
        horizon=limit,
    )


def _empty(site: Site, log: Row[Any], slot: int, limit: str, *, asked: bool) -> bool:
    for attempt in range(ATTEMPTS):
        with site.transaction() as connection:
            connection.execute(
                update(snapshot_log)
                .where(snapshot_log.c.id == log.id)
                .values(
                    horizon=func.greatest(snapshot_log.c.horizon, position.xid8(limit))
                )
            )
            if asked:
                keys = len(log.identity_columns)
                ring.keep_deletes(connection, log.log_table, slot, limit, keys)
            if ring.empty_slot(connection, log.log_table, slot, limit):
                faults.point("log_purge.before_commit")
                return True
            connection.rollback()
        time.sleep(0.02 * (attempt + 1))
    return False
