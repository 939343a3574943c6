"""The statements that create the types of one site at another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from sites.sql import load
from sites.tables.table import Table

_CONSTRAINT = re.compile(r""" CONSTRAINT (\w+|"(?:[^"]|"")*")(?= CHECK)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeStatement:
    """A type of users, with the statement that creates it."""

    #: as PostgreSQL prints it, with its schema
    name: str
    schema: str
    #: None if no statement alone creates it: a base type, or the rows of a table
    statement: str | None

    def same_as(self, other: TypeStatement) -> bool:
        """Whether two types take the same values, whatever their checks are called."""
        return self._plain == other._plain

    @property
    def _plain(self) -> str:
        return _CONSTRAINT.sub("", self.statement or "")


def of_columns(
    connection: Connection, table: Table, columns: Sequence[str]
) -> list[TypeStatement]:
    """The types that columns of a table need, those first that others need."""
    asked = {"table": table.oid, "columns": [*columns], "types": []}
    return _read(connection, asked)


def of_names(connection: Connection, names: Sequence[str]) -> dict[str, TypeStatement]:
    """The types of these names that a site has, by name.

    Parameters:
        names: as PostgreSQL prints them.
    """
    found = _read(connection, {"table": 0, "columns": [], "types": [*names]})
    return {one.name: one for one in found if one.name in names}


def _read(connection: Connection, asked: dict[str, object]) -> list[TypeStatement]:
    rows = connection.execute(text(load("type_statements")), asked).mappings()
    return [TypeStatement(**row) for row in rows]
