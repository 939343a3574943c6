"""Snapshot logs: which rows of a master table changed, and in which transaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import sql
from sqlalchemy import (
    Connection,
    Row,
    Text,
    delete,
    exists,
    func,
    insert,
    select,
    text,
)

from masters.catalog import publication_table, registered_snapshot, snapshot_log
from masters.errors import (
    CannotLogTable,
    NoPrimaryKey,
    SnapshotLogExists,
    SnapshotLogInUse,
    TablePublished,
)
from masters.log import arming, log_function, partition, registration, ring
from masters.log.catalog import find_log, get_log
from masters.log.unloggable import why_unloggable
from sites import QualifiedName, Site, faults, names
from sites.catalog import SCHEMA
from sites.errors import UnknownTable
from sites.sessions import identity
from sites.sessions.exchange import raw
from sites.tables import locks, roles
from sites.tables.table import Table, describe, find_table
from sites.tables.users_triggers import firing_names

#: The row identity of Oracle7's ROWID logs: born with the row, kept everywhere.
ROWID = "snaptide_rowid"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLog:
    """A master table's snapshot log, and the snapshots that need it."""

    table: str
    log_table: str
    with_rowid: bool
    identity_columns: tuple[str, ...]
    created_at: datetime
    #: rows in the log now, an estimate
    rows: int
    #: names of the snapshots that are refreshed from it, as site:snapshot
    snapshots: tuple[str, ...]
    #: users' triggers of the table, which fire for changes that sites push, too
    triggers: tuple[str, ...] = ()
    #: new partitions and children get the triggers of the log at once
    arms_parts: bool = False
    #: columns whose values are recorded, so that sites read only changes of theirs
    partition_columns: tuple[str, ...] = ()


def create_snapshot_log(
    site: Site,
    table: str,
    *,
    with_rowid: bool = False,
    partition_columns: Sequence[str] = (),
) -> SnapshotLog:
    """Record the changes of a master table from now on (Oracle: CREATE SNAPSHOT LOG).

    The first log of a master creates an event trigger for partitions that come later,
    if our user may.

    Parameters:
        site: the master.
        table: `name` or `schema.name`.
        with_rowid: identify rows by a generated column `snaptide_rowid`, which
            is added to the table (rewriting it) and survives a change of key;
            required for tables without a primary key.
        partition_columns: up to three columns whose values are recorded, as
            `alter_snapshot_log` says (Oracle: filter columns).

    Raises:
        UnknownTable, SnapshotLogExists, NoPrimaryKey, CannotLogTable.
        UnknownColumn, CannotPartition: one of the partition columns cannot be used.
    """
    name = names.parse(table)
    for attempt in locks.patiently():
        with attempt, site.transaction() as connection:
            locks.briefly(connection)
            # An upgrade that has gone on is seen, and refused, after the wait.
            log_function.wait_turn(connection, name)
            identity.confirm(connection, site.name)
            _create(
                connection,
                name,
                with_rowid=with_rowid,
                partition_columns=partition_columns,
            )
            faults.point("log_create.before_commit")
    faults.point("log_create.after_commit")
    return show_snapshot_log(site, table)


def alter_snapshot_log(
    site: Site, table: str, *, partition_columns: Sequence[str]
) -> SnapshotLog:
    """Record the values of other columns of a master table from now on.

    A snapshot whose condition compares such a column with constants, as in `origin =
    'JFK'` or `origin IN ('JFK', 'LGA')`, reads from the log only the keys of rows that
    have such a value, or had one (SQL Server: precomputed partitions). What the log
    holds already is read by all snapshots once more.

    Waits for open writers of the table, and keeps others out while the indexes over the
    log are built.

    Parameters:
        site: the master.
        table: `name` or `schema.name`.
        partition_columns: up to three columns, which take the place of those before;
            none for a log of keys alone.

    Raises:
        NoSnapshotLog, UnknownTable: the table has no log, or is gone.
        CannotLogTable: it no longer has the key that the log was made for.
        UnknownColumn, CannotPartition: one of the columns cannot be used.
        TablePublished: the policies of a publication depend on the columns.
    """
    name = names.parse(table)
    for attempt in locks.patiently():
        with attempt, site.transaction() as connection:
            locks.briefly(connection)
            log_function.wait_turn(connection, name)
            identity.confirm(connection, site.name)
            log = get_log(connection, name)
            _refuse_published(connection, name)
            # Nobody is to go on with a function that knows other columns.
            locks.against_writers(connection, name)
            columns = tuple(partition_columns)
            described = describe(connection, name)
            partition.declare(connection, log.log_table, described, columns)
            capture = _still_fitting(connection, log, described, columns)
            if capture is None:
                raise CannotLogTable(
                    f"{name} no longer has the key that its log was made for: drop the "
                    "log and create it again.",
                    table=str(name),
                )
            log_function.replace(connection, capture)
    return show_snapshot_log(site, table)


def drop_snapshot_log(site: Site, table: str, *, force: bool = False) -> None:
    """Stop recording a master table's changes and forget those recorded.

    Parameters:
        force: drop it although snapshots are refreshed from it; they can then
            only be refreshed completely. A ROWID column stays in the table.

    Raises:
        NoSnapshotLog, SnapshotLogInUse.
        TablePublished: a publication has the table.
    """
    name = names.parse(table)
    for attempt in locks.patiently():
        with attempt, site.transaction() as connection:
            locks.briefly(connection)
            log_function.wait_turn(connection, name)
            identity.read(connection)
            log = get_log(connection, name)
            _refuse_published(connection, name)
            users = _users(connection, name)
            if users and not force:
                raise SnapshotLogInUse(
                    f"Snapshots use the snapshot log of {table}: {', '.join(users)}.",
                    snapshots=users,
                )
            log_function.remove(connection, log.log_table)
            ring.drop(connection, log.log_table)
            connection.execute(delete(snapshot_log).where(snapshot_log.c.id == log.id))
            arming.wait_turn(connection)
            if connection.scalar(select(~exists().select_from(snapshot_log))):
                arming.remove(connection)
            faults.point("log_drop.before_commit")
    faults.point("log_drop.after_commit")


def list_snapshot_logs(site: Site) -> list[SnapshotLog]:
    """All snapshot logs of a master, by table name."""
    with identity.initialised(site) as connection:
        rows = connection.execute(
            select(snapshot_log).order_by("table_schema", "table_name")
        ).all()
        arms = arming.why_not(connection) is None
        return [_describe(connection, row, arms_parts=arms) for row in rows]


def show_snapshot_log(site: Site, table: str) -> SnapshotLog:
    """One snapshot log.

    Raises:
        NoSnapshotLog: the table has none.
    """
    with identity.initialised(site) as connection:
        arms = arming.why_not(connection) is None
        log = get_log(connection, names.parse(table))
        return _describe(connection, log, arms_parts=arms)


def _create(
    connection: Connection,
    name: QualifiedName,
    *,
    with_rowid: bool,
    partition_columns: Sequence[str],
) -> None:
    if find_log(connection, name) is not None:
        raise SnapshotLogExists(
            f"Table {name} already has a snapshot log.", table=str(name)
        )
    table = describe(connection, name)
    _refuse_unloggable(connection, table)
    if with_rowid and ROWID not in table.names:
        _add_rowid(connection, table)
        table = describe(connection, name)
    keys = (ROWID,) if with_rowid else table.key
    if not keys:
        raise NoPrimaryKey(f"Table {name} has no primary key.", table=str(name))
    _refuse_unpairable(table, keys)
    log = names.derived(log_function.PREFIX, name)
    ring.create(connection, log, table, keys)
    partition.declare(connection, log, table, partition_columns)
    capture = _capture(table, log, keys, tuple(partition_columns))
    log_function.install(connection, capture)
    arming.install(connection)
    roles.open_to(connection, roles.MASTER, name)
    connection.execute(
        insert(snapshot_log).values(
            table_schema=name.schema,
            table_name=name.name,
            log_table=log,
            with_rowid=with_rowid,
            identity_columns=list(keys),
            created_xid=func.pg_current_xact_id(),
        )
    )


def replace_functions(connection: Connection) -> None:
    """Replace the triggers' functions of all logs by those of this program's version.

    If a table has lost its key, or has it in another type, its log is not changed:
    `snaptide doctor` finds it. Waits for transactions that alter logs, and keeps others
    out: it would take back what they write.
    """
    log_function.wait_turn_of_all(connection)
    logs = connection.execute(select(snapshot_log)).all()
    if logs:
        arming.install(connection)
    for log in logs:
        with suppress(UnknownTable):
            table = describe(
                connection, QualifiedName(log.table_schema, log.table_name)
            )
            # If they are others now, values stay unknown until they are declared again.
            known = log_function.known(connection, table, log.log_table)
            capture = _still_fitting(connection, log, table, known)
            if capture is not None:
                log_function.replace(connection, capture)


def _still_fitting(
    connection: Connection, log: Row[Any], table: Table, partition: tuple[str, ...]
) -> log_function.LogCapture | None:
    """What a log records; None if the table has not the key that it was made for."""
    keys = tuple(log.identity_columns)
    recorded = find_table(connection, QualifiedName(SCHEMA, log.log_table))
    if recorded is None or not {*keys} <= {*table.names}:
        return None
    pairs = zip(keys, names.numbered("k", keys), strict=True)
    if not all(
        ring.holds(recorded.column(place), table.column(name)) for name, place in pairs
    ):
        return None
    return _capture(table, log.log_table, keys, partition)


def _capture(
    table: Table, log: str, keys: tuple[str, ...], partition: tuple[str, ...]
) -> log_function.LogCapture:
    return log_function.LogCapture(
        table=table,
        log=log,
        identity=keys,
        fitting=tuple(ring.fitting(table.column(name)) for name in keys),
        partition=partition,
    )


def _refuse_published(connection: Connection, name: QualifiedName) -> None:
    at = publication_table.c
    of = at.table_schema == name.schema, at.table_name == name.name
    if connection.scalar(select(exists().where(*of))):
        raise TablePublished(
            f"{name} is in a publication, whose policies are about its log.",
            table=str(name),
        )


def _refuse_unloggable(connection: Connection, table: Table) -> None:
    if table.kind not in ("r", "p"):
        raise CannotLogTable(
            f"{table.qualified} is not a table.", table=str(table.qualified)
        )
    if table.schema in ("snaptide", "pg_catalog", "information_schema"):
        raise CannotLogTable(f"{table.qualified} is a table of Snaptide or PostgreSQL.")
    reason = why_unloggable(connection, table)
    if reason is not None:
        raise CannotLogTable(f"{reason}.", table=str(table.qualified))


def _refuse_unpairable(table: Table, keys: Sequence[str]) -> None:
    for column in map(table.column, keys):
        if not column.pairable:
            raise CannotLogTable(
                f"Column {column.name} cannot identify rows of {table.qualified}: the "
                f"operator = of type {column.type} cannot pair rows.",
                table=str(table.qualified),
                column=column.name,
            )


def _add_rowid(connection: Connection, table: Table) -> None:
    where = names.identifier(table.qualified)
    column = sql.Identifier(ROWID)
    raw(connection).execute(
        sql.SQL(
            "ALTER TABLE {} ADD COLUMN {} uuid NOT NULL"
            " DEFAULT gen_random_uuid() UNIQUE"
        ).format(where, column)
    )


def _describe(
    connection: Connection, row: Row[Any], *, arms_parts: bool
) -> SnapshotLog:
    rows = connection.scalar(
        text(
            "SELECT COALESCE(sum(greatest(c.reltuples, 0)), 0)::int8 FROM pg_inherits i"
            " JOIN pg_class c ON c.oid = i.inhrelid"
            " JOIN pg_class p ON p.oid = i.inhparent"
            " WHERE p.relname = :log AND p.relnamespace = 'snaptide'::regnamespace"
        ),
        {"log": row.log_table},
    )
    table = QualifiedName(row.table_schema, row.table_name)
    return SnapshotLog(
        table=str(table),
        log_table=row.log_table,
        with_rowid=row.with_rowid,
        identity_columns=tuple(row.identity_columns),
        created_at=row.created_at,
        rows=rows or 0,
        snapshots=tuple(_users(connection, table)),
        triggers=firing_names(connection, table),
        arms_parts=arms_parts,
        partition_columns=partition.of_log(connection, row.log_table),
    )


def _users(connection: Connection, table: QualifiedName) -> list[str]:
    name = func.concat(
        registered_snapshot.c.site_name, ":", registered_snapshot.c.snapshot, type_=Text
    )
    return list(
        connection.scalars(
            select(name).where(registration.of_log(table)).order_by(name)
        )
    )
