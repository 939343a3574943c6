"""Secondary indexes of a table, and how they are built anew at another database."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Connection, text

from sites.names import QualifiedName, comma, identifier, identifiers
from sites.sessions.exchange import raw
from sites.sql import load
from sites.tables.table import Table, with_tuples


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A secondary index; `special` ones cannot be built anew at a site."""

    name: str
    method: str
    columns: tuple[str, ...]
    key_columns: int
    classes: tuple[str, ...]
    collations: tuple[str, ...]
    #: the catalog's bits: 1 descending, 2 nulls first
    options: tuple[int, ...]
    #: partial, or over an expression
    special: bool


def secondary(connection: Connection, table: Table) -> list[Index]:
    """Secondary indexes of a table, the unique ones over plain columns left out."""
    rows = connection.execute(text(load("indexes")), {"oid": table.oid}).mappings()
    return [Index(**with_tuples(row)) for row in rows]


def create(connection: Connection, table: QualifiedName, index: Index) -> None:
    """Build an index like one of the master's."""
    raw(connection).execute(statement(table, index))


def statement(
    table: QualifiedName, index: Index, *, concurrently: bool = False
) -> sql.Composed:
    """The statement that builds an index like one of the master's."""
    keys = [_key(index, position) for position in range(index.key_columns)]
    made = sql.SQL("CREATE INDEX {}ON {} USING {} ({})").format(
        sql.SQL("CONCURRENTLY " if concurrently else ""),
        identifier(table),
        sql.Identifier(index.method),
        sql.SQL(", ").join(keys),
    )
    if len(index.columns) > index.key_columns:
        made += sql.SQL(" INCLUDE ({})").format(
            comma(identifiers(index.columns[index.key_columns :]))
        )
    return made


def _key(index: Index, position: int) -> sql.Composed:
    parts: list[sql.Composable] = [sql.Identifier(index.columns[position])]
    if index.collations[position]:
        parts.append(sql.SQL("COLLATE " + index.collations[position]))
    parts.append(sql.SQL(index.classes[position]))
    if index.method == "btree":
        option = index.options[position]
        parts.append(sql.SQL("DESC" if option & 1 else "ASC"))
        parts.append(sql.SQL("NULLS FIRST" if option & 2 else "NULLS LAST"))
    return sql.SQL(" ").join(parts)
