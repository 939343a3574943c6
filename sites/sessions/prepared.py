"""What is made once for a session and used many times: statements, and descriptions.

Statements are built, compiled or planned once. Tables are described once, and a session
is told only whether that still holds.
"""

from __future__ import annotations

from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, CursorResult
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.sql.base import Executable

from sites.names import QualifiedName

#: The execution option of statements that the server is to plan once per session.
_PLANNED = "snaptide_planned"

#: A session keeps the descriptions of so many tables at most.
MOST_TABLES = 256

_DIALECT = psycopg.dialect()  # type: ignore[no-untyped-call]

Statement = TypeVar("Statement", bound=Executable)


def planned_once(statement: Statement) -> Statement:
    """Let each of our sessions plan a statement at its first run, for all later runs.

    Use it for statements that take longer to plan than to run, that keep their text,
    and whose tables users cannot alter: the result must keep its types.
    """
    return statement.execution_options(**{_PLANNED: True})


def as_json(
    query: sa.Select[*tuple[Any, ...]] | sa.TextualSelect, name: str
) -> sa.ColumnElement[Any]:
    """The rows of a query as one JSON value, for a statement that reads more.

    It is NULL if there are none, and has ids as text.

    Parameters:
        name: of the value, as a column of that statement.
    """
    rows = query.subquery(name)
    found = sa.select(sa.func.json_agg(sa.literal_column(f'"{name}"')))
    return found.select_from(rows).scalar_subquery().label(name)


def execute(cursor: Any, statement: str, values: Any, context: Any) -> bool | None:
    """Run a statement if it is `planned_once`; True if it was.

    A listener to SQLAlchemy's `do_execute`.
    """
    if not context.execution_options.get(_PLANNED):
        return None
    cursor.execute(statement, values, prepare=True)
    return True


def known_tables(connection: Connection) -> dict[QualifiedName, tuple[str, Any]]:
    """By name, the hash of what the catalog said of a table, and its description."""
    kept: dict[QualifiedName, tuple[str, Any]] = connection.info.setdefault(
        "snaptide.tables", {}
    )
    if len(kept) >= MOST_TABLES:
        kept.clear()
    return kept


class Prepared:
    """A statement as text, with constant values and parameters for the others.

    Building, compiling and planning the comparison of a few columns takes longer than
    running it for one row, and it runs for each transaction that is applied by itself.
    The result must keep its types, as with `planned_once`.

    Parameters:
        statement: the statement, with a `bindparam` that has some value for each
            value that changes; values go to the driver unchanged.
    """

    def __init__(
        self,
        statement: sa.Select[*tuple[Any, ...]] | sa.Insert | sa.Update | sa.Delete,
    ) -> None:
        compiled = statement.compile(
            dialect=_DIALECT, compile_kwargs={"render_postcompile": True}
        )
        self._text = str(compiled)
        self._values = dict(compiled.params)

    def run(
        self, connection: Connection, **values: object
    ) -> CursorResult[*tuple[Any, ...]]:
        """Run the statement with these values."""
        return connection.exec_driver_sql(
            self._text, {**self._values, **values}, execution_options={_PLANNED: True}
        )
