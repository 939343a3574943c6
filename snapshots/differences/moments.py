"""Beginning the one moment of a database at which all that is compared is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import errors as pg
from sqlalchemy import Connection

from masters.log.catalog import find_logs
from sites.catalog import SCHEMA
from sites.names import QualifiedName
from sites.tables import locks
from sites.tables.table import describe
from snapshots.definitions import parents
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import PositionMoved


def hold_master(
    master: Connection,
    members: Sequence[Snapshot],
    what: str,
    logs: Collection[str] | None = None,
) -> None:
    """Begin one moment of the master, after locking all that is read in it.

    A purge that empties a partition of a log, a TRUNCATE and DDL that rewrites a table
    remove rows from older moments too: without the locks, a table that was found there
    might be read as empty.

    Parameters:
        members: the snapshots that are compared.
        what: refresh or check, for the message.
        logs: the logs that their tables had a moment ago, if the caller has asked.

    Raises:
        UnknownTable: a master table is gone.
        PositionMoved: a snapshot log is gone.
    """
    tables = parents.tables(members)
    if logs is None:
        logs = find_logs(master, tables)
        # Not rolled back: a rollback would make the server forget prepared plans.
        master.commit()
    gone = f"A snapshot log of the group was dropped during the {what}."
    hold(master, tables, [QualifiedName(SCHEMA, log) for log in logs], gone=gone)


def hold(
    connection: Connection,
    tables: Sequence[QualifiedName],
    logs: Sequence[QualifiedName] = (),
    *,
    gone: str,
) -> None:
    """Lock all that is read, and so begin one moment of a database.

    Parameters:
        connection: outside a transaction; REPEATABLE READ from now on.
        logs: the logs of the tables, if they are read.
        gone: the message if a lock failed although the tables are there.

    Raises:
        UnknownTable: one of the tables is gone.
        PositionMoved: a log is gone, or a table was gone.
    """
    connection.execution_options(isolation_level="REPEATABLE READ")
    try:
        # In the order in which DDL of a log locks them.
        locks.against_ddl(connection, *sorted(tables), *sorted(logs))
    except pg.UndefinedTable as error:
        connection.rollback()
        for table in tables:
            describe(connection, table)
        raise PositionMoved(gone) from error
