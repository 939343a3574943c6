"""Statements that are built and compiled once, and run many times."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, CursorResult


class Prepared:
    """A statement as text, with the values that stay and room for those that do not.

    To build and compile the comparison of a few columns takes longer than to run it
    for one row, and transactions that are applied one by one ask it for each of them.

    Parameters:
        connection: to a database of the kind that it will run at.
        statement: with a `bindparam`, which has some value, for each that changes;
            values go to the driver as they are.
    """

    def __init__(
        self,
        connection: Connection,
        statement: sa.Select[*tuple[Any, ...]] | sa.Insert | sa.Update | sa.Delete,
    ) -> None:
        compiled = statement.compile(
            dialect=connection.dialect, compile_kwargs={"render_postcompile": True}
        )
        self._text = str(compiled)
        self._values = dict(compiled.params)

    def run(
        self, connection: Connection, **values: object
    ) -> CursorResult[*tuple[Any, ...]]:
        """Run it with these values."""
        return connection.exec_driver_sql(self._text, {**self._values, **values})
