"""Statements that are built, compiled or planned once, and run many times."""

from __future__ import annotations

from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, CursorResult
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.sql.base import Executable

#: The execution option of statements that the server is to plan once a session.
_PLANNED = "snaptide_planned"

_DIALECT = psycopg.dialect()  # type: ignore[no-untyped-call]

Statement = TypeVar("Statement", bound=Executable)


def planned_once(statement: Statement) -> Statement:
    """Have each session of ours plan a statement at its first run, for all later ones.

    To be used where to plan takes longer than to run, for statements whose text stays,
    about tables that no user can give another shape: the result of what is planned
    must keep its types.
    """
    return statement.execution_options(**{_PLANNED: True})


def execute(cursor: Any, statement: str, values: Any, context: Any) -> bool | None:
    """Run a statement that is `planned_once`; True where it was one.

    A listener to SQLAlchemy's `do_execute`.
    """
    if not context.execution_options.get(_PLANNED):
        return None
    cursor.execute(statement, values, prepare=True)
    return True


class Prepared:
    """A statement as text, with the values that stay and room for those that do not.

    To build, compile and plan the comparison of a few columns takes longer than to run
    it for one row, and transactions that are applied one by one ask it for each of
    them. What it returns must keep its types, as with `planned_once`.

    Parameters:
        statement: with a `bindparam`, which has some value, for each that changes;
            values go to the driver as they are.
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
        """Run it with these values."""
        return connection.exec_driver_sql(
            self._text, {**self._values, **values}, execution_options={_PLANNED: True}
        )
