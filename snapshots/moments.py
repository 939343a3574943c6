"""Beginning the one moment of a database at which all that is compared is read."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import errors as pg
from sqlalchemy import Connection

from sites import locks
from sites.names import QualifiedName
from sites.table import describe
from snapshots.errors import PositionMoved


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
