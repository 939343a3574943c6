"""Purging snapshot logs of changes that every registered snapshot has seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from psycopg import errors
from sqlalchemy import Connection, Row, Text, cast, func, select, update
from tenacity import stop_after_attempt, wait_incrementing

from masters.catalog import registered_snapshot, snapshot_log
from masters.errors import NoSnapshotLog
from masters.log import images, registration, ring
from masters.rules import table_rules
from sites import QualifiedName, Site, faults, retry
from sites.capture import position
from sites.sessions import identity

#: How long deletes stay in a log if rules ask when a row was deleted.
DELETES_KEPT = timedelta(days=30)

#: How often a partition that a writer holds is tried before it is left for later.
ATTEMPTS = 5

#: Seconds of the first pause between two tries, and by how many each is longer.
PAUSE = 0.02


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
    (informix_timestamp), its deletes stay longer, as in Informix's delete table. Images
    that have expired count no more.

    Parameters:
        deletes_kept: how long those deletes stay, from the time of the delete.
    """
    with identity.initialised(site) as connection:
        images.forget_expired(connection)
        logs = connection.execute(select(snapshot_log).order_by("id")).all()
    found = [_purge_if_there(site, log, deletes_kept) for log in logs]
    return [report for report in found if report is not None]


def horizon(connection: Connection, table: QualifiedName) -> str:
    """The oldest transaction that a snapshot, or a current reader, may ask for."""
    positions = select(
        func.min(func.pg_snapshot_xmin(registered_snapshot.c.position))
    ).where(registration.of_log(table))
    now = func.pg_snapshot_xmin(func.pg_current_snapshot())
    lowest = func.least(positions.scalar_subquery(), now)
    return str(connection.scalar(select(cast(lowest, Text))))


def _purge_if_there(
    site: Site, log: Row[Any], deletes_kept: timedelta
) -> LogPurgeReport | None:
    """Purge a log, or return None if it has been dropped since it was listed."""
    try:
        return _purge(site, log, deletes_kept)
    except NoSnapshotLog:
        return None
    except errors.UndefinedTable:
        with site.session() as connection:
            its = select(snapshot_log.c.id).where(snapshot_log.c.id == log.id)
            if connection.scalar(its) is not None:
                raise
        return None


def _purge(site: Site, log: Row[Any], deletes_kept: timedelta) -> LogPurgeReport:
    table = QualifiedName(log.table_schema, log.table_name)
    with site.transaction() as connection:
        asked = table_rules.load(connection, table).ask_when_deleted
        ring.forget_deletes(
            connection, log.log_table, deletes_kept if asked else timedelta(0)
        )
        limit = horizon(connection, table)
        slots = ring.full_slots(connection, log.log_table, limit)
    faults.point("log_purge.after_look")
    emptied = sum(
        retry.until(
            partial(_empty, site, log, slot, limit, asked=asked),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_incrementing(PAUSE, PAUSE),
        )
        for slot in slots
    )
    return LogPurgeReport(
        table=str(table),
        emptied=emptied,
        busy=len(slots) - emptied,
        horizon=limit,
    )


def _empty(site: Site, log: Row[Any], slot: int, limit: str, *, asked: bool) -> bool:
    """Empty a partition; False if a writer holds it.

    Raises:
        NoSnapshotLog: the log was dropped; the table may have another one now.
    """
    with site.transaction() as connection:
        noted = connection.execute(
            update(snapshot_log)
            .where(snapshot_log.c.id == log.id)
            .values(horizon=func.greatest(snapshot_log.c.horizon, position.xid8(limit)))
        )
        if not noted.rowcount:
            name = log.table_name
            raise NoSnapshotLog(f"The log of {name} was dropped.", table=name)
        if asked:
            keys = len(log.identity_columns)
            ring.keep_deletes(connection, log.log_table, slot, limit, keys)
        emptied = ring.empty_slot(connection, log.log_table, slot, limit)
        if emptied:
            faults.point("log_purge.before_commit")
        else:
            connection.rollback()
    return emptied
