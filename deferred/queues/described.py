"""Descriptions of the tables that calls change, as they are now."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from deferred.queues.queue import Queue
from masters.errors import UnknownColumn
from sites import QualifiedName
from sites.tables.table import Table, describe


def described(
    connection: Connection, target: QualifiedName, columns: Sequence[str]
) -> Table:
    """Describe a base or master table, and check that it has the carried columns.

    Raises:
        UnknownTable, UnknownColumn: the table, or one of its columns, is gone.
    """
    table = describe(connection, target)
    _refuse_gone(table, [name for name in columns if name not in table.names])
    return table


def captured_columns(
    connection: Connection, queue: Queue
) -> tuple[Table, dict[str, str]]:
    """A table whose changes are queued, and the current name of each queued column.

    Raises:
        UnknownTable, UnknownColumn: the table, or one of its columns, is gone.
    """
    table = describe(connection, queue.base)
    called = {column.number: column.name for column in table.columns}
    numbers = dict(zip(queue.columns, queue.column_numbers, strict=True))
    _refuse_gone(table, [name for name, n in numbers.items() if n not in called])
    return table, {name: called[number] for name, number in numbers.items()}


def _refuse_gone(table: Table, gone: Sequence[str]) -> None:
    if gone:
        raise UnknownColumn(
            f"Table {table.qualified} no longer has the column {', '.join(gone)}.",
            table=str(table.qualified),
            columns=gone,
        )
