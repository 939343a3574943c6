"""Tables of ours whose rows may be larger than a page.

If a row does not fit into its page, PostgreSQL stores values apart (TOAST), but none of
less than 25 bytes: two images of 200 short texts fit nowhere. Such a table stores all
its images in one value of a composite type, which can be stored apart. It looks like
any other, because it is a view whose triggers take rows apart and put them together.
The other columns stay columns, for indexes and for queries that need only them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection, text
from sqlalchemy.dialects import postgresql

from sites import names
from sites.names import QualifiedName, comma, identifier
from sites.sessions.exchange import raw
from sites.sql import load
from sites.tables.table import Table

#: The schema of a session's temporary tables.
TEMPORARY = "pg_temp"

#: Bytes of a page for the images, beside the row's header and our own columns.
PAGE_BYTES = 7900
#: The largest value of a variable size that is not stored apart.
_STAYS = 24
_ALIGNED = 8

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


#: The size of a type whose values have no fixed size.
ANY_SIZE = -1


def overflows(table: Table, columns: Sequence[str]) -> bool:
    """Whether an old and a new image of a row may fill more than a page."""
    return fill_more([table.column(name).size for name in columns] * 2)


def fill_more(sizes: Iterable[int]) -> bool:
    """Whether values may fill more than a page.

    Parameters:
        sizes: the sizes of their types, as in `pg_type.typlen`.
    """
    return sum(map(_most, sizes)) > PAGE_BYTES


def stored(name: QualifiedName) -> QualifiedName:
    """The name of the table that stores the rows of such a view."""
    return QualifiedName(name.schema, names.derived("wide$_", name))


def create(
    connection: Connection,
    table: sa.Table,
    images: Sequence[sa.Column[Any]],
    *,
    wide: bool,
) -> None:
    """Create a table with images beside its other columns.

    Parameters:
        table: the table without the images.
        images: the columns of the images.
        wide: its rows may be larger than a page.
    """
    if not wide:
        for column in images:
            table.append_column(column)
        table.create(connection, checkfirst=False)
        return
    name = QualifiedName(table.schema or TEMPORARY, table.name)
    store = stored(name)
    parts = _parts(name, table, images)
    raw(connection).execute(sql.SQL("CREATE TYPE {kind} AS ({typed})").format(**parts))
    table.to_metadata(sa.MetaData(), schema=store.schema, name=store.name).create(
        connection, checkfirst=False
    )
    for statement in load("wide_table").split("\n\n"):
        raw(connection).execute(sql.SQL(statement).format(**parts))


def drop(connection: Connection, name: QualifiedName) -> None:
    """Drop a table that `create` made, if it exists."""
    kind = _relkind(connection, name)
    if kind == "r":
        _drop(connection, "TABLE", name)
    elif kind == "v":
        store = stored(name)
        _drop(connection, "VIEW", name)
        _drop(connection, "TABLE", store)
        _drop(connection, "TYPE", _kind(store))
        _drop(connection, "FUNCTION", store)


def is_wide(connection: Connection, name: QualifiedName) -> bool:
    """Whether the rows of a table that `create` made may be larger than a page."""
    return _relkind(connection, name) == "v"


def _relkind(connection: Connection, name: QualifiedName) -> str | None:
    found: str | None = connection.scalar(
        text("SELECT relkind FROM pg_class WHERE oid = to_regclass(:name)"),
        {"name": identifier(name).as_string(raw(connection))},
    )
    return found


def _parts(
    name: QualifiedName, table: sa.Table, images: Sequence[sa.Column[Any]]
) -> dict[str, sql.Composable]:
    store = stored(name)
    plain = [sql.Identifier(column.name) for column in table.columns]
    wide = [sql.Identifier(column.name) for column in images]
    typed = [
        sql.SQL("{} {}").format(
            sql.Identifier(column.name), sql.SQL(column.type.compile(_DIALECT))
        )
        for column in images
    ]
    return {
        "table": identifier(name),
        "store": identifier(store),
        "function": identifier(store),
        "kind": identifier(_kind(store)),
        "typed": comma(typed),
        "plain": comma(plain),
        "new_plain": comma(sql.SQL("NEW.{}").format(one) for one in plain),
        "new_images": comma(sql.SQL("NEW.{}").format(one) for one in wide),
        "shown_plain": comma(sql.SQL("s.{}").format(one) for one in plain),
        "shown_images": comma(sql.SQL("i.{}").format(one) for one in wide),
    }


def _kind(store: QualifiedName) -> QualifiedName:
    return QualifiedName(store.schema, f"{store.name}$i")


def _drop(connection: Connection, kind: str, name: QualifiedName) -> None:
    statement = sql.SQL("DROP {} {}").format(sql.SQL(kind), identifier(name))
    raw(connection).execute(statement)


def _most(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED if size > 0 else _STAYS
