"""Finding the value that a column cannot hold, after a write was refused for it.

The database says for which type a value is too long, but not for which column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, func, literal, select
from sqlalchemy.exc import DBAPIError, OperationalError

from sites.names import QualifiedName
from sites.transfer.values import each_of, printed
from sites.writing.staged import Staged, selected

#: How many characters of a value are shown.
SHOWN = 40

#: The error of a column's type for a value, if it does not accept it.
REFUSES = func.pg_input_error_info(
    sa.column("value", Text), sa.column("type", Text)
).table_valued(
    sa.column("message", Text), sa.column("sql_error_code", Text), name="refused"
)


def first(
    connection: Connection, staged: Staged, rows: Mapping[str, Any]
) -> Row[Any, Any, Any] | None:
    """The first new value among staged changes that its column cannot hold.

    Parameters:
        rows: equalities that select the changes in the source (column -> value).

    Returns:
        Column, value, and the error message of the type. None if there is none, or if a
        type cannot tell: the check of a domain may fail with an error of its own.
    """
    columns = [staged.table.column(name) for name in staged.columns]
    each = each_of(
        "each",
        ("name", "value", "type"),
        [
            (literal(c.name), printed(staged.new(c.name)), literal(c.type))
            for c in columns
        ],
    )
    refused = REFUSES.lateral()
    wanted = (
        select(each.c.name, each.c.value, refused.c.message)
        .select_from(staged.source.join(each, sa.true()).join(refused, sa.true()))
        .where(
            selected(staged.source, rows),
            staged.kind("I", "U", "R"),
            each.c.value.is_not(None),
            refused.c.message.is_not(None),
        )
        .limit(1)
    )
    try:
        with connection.begin_nested():
            return connection.execute(wanted).one_or_none()
    except OperationalError:
        raise
    except DBAPIError:
        return None


def find(connection: Connection, staged: Staged, rows: Mapping[str, Any]) -> str | None:
    """Describe the first such value in words, with advice; None if there is none."""
    row = first(connection, staged, rows)
    return message(staged.table.qualified, *row) if row else None


def message(table: QualifiedName, column: str, value: str, why: str) -> str:
    """A message that names the value and its column, the reason and what to do."""
    cut = value if len(value) <= SHOWN else f"{value[:SHOWN]}..."
    return (
        f"{table}.{column} cannot hold {cut!r}: {why}. Change the column so that it "
        "can hold the value and retry, or retry with another value (--edit "
        f"{table}.{column}=VALUE)."
    )
