"""Making a log record all parts of its table again.

A partition or inheritance child that came after the log has none of its triggers, if
there is no event trigger (`masters.log.arming`). ALTER TABLE ... DISABLE TRIGGER or
ENABLE TRIGGER ALL changes those that are there. Until then statements on the part
itself are in no log.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psycopg import errors as pg
from sqlalchemy import Connection, func, select, update

from masters.catalog import registered_snapshot, snapshot_log
from masters.errors import CannotLogTable, PartUnrecorded
from masters.log import arming, log_function, registration
from masters.log.catalog import find_log, get_log, logged_tables
from masters.log.log_function import EVENTS
from sites import QualifiedName, Site, names
from sites.capture import triggers
from sites.capture.triggers import Lacking
from sites.conditions import ranges
from sites.sessions import identity
from sites.tables import locks
from sites.tables.table import Table, describe


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedLog:
    """A snapshot log whose table and parts all have their triggers now."""

    table: str
    #: those that lacked some, or had them off
    parts: tuple[str, ...]


def repair_snapshot_logs(site: Site, table: str | None = None) -> list[RepairedLog]:
    """Give tables and their parts the triggers of their snapshot logs that they lack.

    A refresh does so, too. It is for a master whose user may create no event trigger:
    run after a new partition, it has changes recorded before the next refresh. The
    event trigger is created as well, if our user may.

    Parameters:
        table: `name` or `schema.name`; every table with a log if it is None.

    Returns:
        The log of each table, by name.

    Raises:
        NoSnapshotLog, UnknownTable: the table has none, or is gone.
        PartUnrecorded: our user does not own a part.
        RecordedAlready: a part has the triggers of another table's log.
        CannotLogTable: a part is a foreign table.
    """
    with identity.initialised(site) as connection:
        if table is not None:
            get_log(connection, names.parse(table))
        found = logged_tables(connection) if table is None else [names.parse(table)]
        if found:
            arming.install(connection)
    return [_repair(site, name) for name in found]


def _repair(site: Site, name: QualifiedName) -> RepairedLog:
    parts: Sequence[Lacking] = ()
    for attempt in locks.patiently():
        with attempt:
            try:
                parts = make(site, name)
            except pg.WrongObjectType as error:
                raise CannotLogTable(
                    f"A part of {name} is a foreign table, which can have no triggers "
                    "that record changes: each refresh compares all rows.",
                    table=str(name),
                ) from error
    return RepairedLog(table=str(name), parts=tuple(str(one.table) for one in parts))


def make(
    site: Site,
    name: QualifiedName,
    joined: Sequence[Collection[QualifiedName]] | None = None,
) -> Sequence[Lacking]:
    """Create the triggers of a log that are missing, and switch on those that are off.

    The log counts as a new one then, because nobody knows what was changed meanwhile:
    each snapshot is compared in full once. It does not if only parts have none of the
    triggers that every snapshot is still to see: all of their rows are compared anyway.

    Parameters:
        site: the master.
        joined: for each snapshot of the table in this refresh, the parts that it has
            not seen yet; by default, those of all registered ones, as far as the
            master knows.

    Returns:
        What lacked triggers.

    Raises:
        PartUnrecorded: our user does not own a part.
        RecordedAlready: a part has the triggers of another table's log.
        psycopg.errors.LockNotAvailable: users write to a part.
        psycopg.errors.WrongObjectType: a part is a foreign table.
    """
    with site.transaction() as connection:
        locks.briefly(connection)
        log_function.wait_turn(connection, name)
        log = find_log(connection, name)
        if log is None:
            return ()
        table = describe(connection, name)
        missing = triggers.lacking(
            connection, table, log.log_table, events=EVENTS, subscribed=True
        )
        try:
            triggers.attach(
                connection, table, log.log_table, events=EVENTS, subscribed=True
            )
        except pg.InsufficientPrivilege as error:
            raise _unrecorded(table, missing) from error
        if joined is None:
            joined = _unseen(connection, name)
        if not all(one.is_new and _in_all(one.table, joined) for one in missing):
            connection.execute(
                update(snapshot_log)
                .where(snapshot_log.c.id == log.id)
                .values(created_xid=func.pg_current_xact_id())
            )
        return missing


def _unseen(
    connection: Connection, name: QualifiedName
) -> list[Collection[QualifiedName]]:
    """For each registered snapshot of a table, the parts that it has not seen yet."""
    at = registered_snapshot.c.position
    known = select(at).where(registration.of_log(name), at.is_not(None))
    return [
        ranges.parts_since(connection, name, str(position)).values()
        for position in connection.scalars(known).all()
    ]


def _unrecorded(table: Table, missing: Sequence[Lacking]) -> PartUnrecorded:
    parts = [str(one.table) for one in missing]
    todo = "; ".join(s.as_string() for one in missing for s in one.statements())
    return PartUnrecorded(
        f"Not all changes of {', '.join(parts)} are recorded in the snapshot log of "
        f"{table.qualified}. As the owner, run: {todo}",
        table=str(table.qualified),
        parts=parts,
    )


def _in_all(part: QualifiedName, joined: Sequence[Collection[QualifiedName]]) -> bool:
    return bool(joined) and all(part in one for one in joined)
