"""Looking at tables for signs that they have changed, without describing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import sqlalchemy as sa
from sqlalchemy import Connection

from sites.names import QualifiedName
from sites.sessions.prepared import Prepared
from sites.sql import load


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """The few facts of a table that tell whether it has changed."""

    #: the state of each column, by name
    columns: Mapping[str, str]
    #: Row-level security applies to what this user reads.
    hides_rows: bool
    #: The names of its foreign keys to the tables asked for, and of those that always
    #: hold.
    references: frozenset[str]
    always: frozenset[str]
    #: Its oid, if no other table can hold rows of it.
    alone: int | None
    #: The number of its file, which changes when the table is rewritten; 0 if a crash
    #: loses its rows, or they are in other tables.
    file: int


def glance(
    connection: Connection,
    tables: Sequence[QualifiedName],
    parents: Sequence[QualifiedName],
) -> dict[QualifiedName, Glance]:
    """Look at several tables at once; tables that do not exist are left out."""
    named = {
        "schemas": [name.schema for name in tables],
        "names": [name.name for name in tables],
        "parent_schemas": [name.schema for name in parents],
        "parent_names": [name.name for name in parents],
    }
    return {
        QualifiedName(row.schema, row.name): Glance(
            columns=row.columns or {},
            hides_rows=row.hides_rows,
            references=frozenset(row.references),
            always=frozenset(row.always),
            alone=row.alone,
            file=row.file,
        )
        for row in _asking().run(connection, **named)
    }


@cache
def _asking() -> Prepared:
    return Prepared(sa.text(load("glance").format(state=load("column_state"))))
