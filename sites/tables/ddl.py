"""Creating the tables, constraints and views that a snapshot needs at its site.

Types, collations, defaults and conditions are text that the master's catalog printed;
this module quotes all names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from psycopg import sql
from psycopg.errors import DependentObjectsStillExist
from sqlalchemy import Connection, text
from sqlalchemy.exc import InternalError

from sites.errors import StillNeeded
from sites.names import QualifiedName, comma, identifier, identifiers
from sites.sessions.exchange import Bound, driver_of, hold, raw
from sites.sql import load
from sites.tables.table import ForeignKey, Table, Unique, with_tuples
from sites.transfer.types import NativeType


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column as it is to be created."""

    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    collation: str | None = None
    #: the default is the expression of a stored generated column
    generated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultNeeds:
    """What a default or generation expression depends on."""

    #: number of the column
    number: int
    #: it needs a sequence or a user's function, which another database may not have
    foreign: bool
    inputs: tuple[str, ...]


def default_needs(connection: Connection, table: Table) -> dict[int, DefaultNeeds]:
    """The needs of a table's defaults, by the number of their column."""
    rows = connection.execute(
        text(load("default_needs")), {"oid": table.oid}
    ).mappings()
    return {row["number"]: DefaultNeeds(**with_tuples(row)) for row in rows}


def exists(connection: Connection, name: QualifiedName) -> bool:
    """Whether a table, view, index or sequence has this name."""
    return bool(
        connection.scalar(
            text(
                "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n"
                " ON n.oid = c.relnamespace"
                " WHERE n.nspname = :schema AND c.relname = :name)"
            ),
            {"schema": name.schema, "name": name.name},
        )
    )


def create_table(
    connection: Connection,
    name: QualifiedName,
    columns: Sequence[NewColumn],
    *,
    unlogged: bool = False,
) -> None:
    """Create a table with its columns, NOT NULL and defaults; nothing else."""
    raw(connection).execute(
        sql.SQL("CREATE {} {} ({})").format(
            sql.SQL("UNLOGGED TABLE" if unlogged else "TABLE"),
            identifier(name),
            _columns(columns),
        )
    )


def add_columns(
    connection: Connection, name: QualifiedName, columns: Sequence[NewColumn]
) -> None:
    """Add columns to a table, whose defaults only the existing rows get."""
    table = identifier(name)
    added = [sql.SQL("ADD {}").format(_column(one)) for one in columns]
    bare = [
        sql.SQL("ALTER {} DROP DEFAULT").format(sql.Identifier(one.name))
        for one in columns
        if one.default is not None
    ]
    for actions in filter(None, (added, bare)):
        raw(connection).execute(
            sql.SQL("ALTER TABLE {} {}").format(table, sql.SQL(", ").join(actions))
        )


def set_default(
    connection: Connection, table: QualifiedName, column: str, default: str | None
) -> None:
    """Give a column another default, as an expression, or none."""
    to: sql.Composable = sql.SQL("DROP DEFAULT")
    if default is not None:
        to = sql.SQL("SET DEFAULT {}").format(sql.SQL(default))
    raw(connection).execute(
        sql.SQL("ALTER TABLE {} ALTER {} {}").format(
            identifier(table), sql.Identifier(column), to
        )
    )


def defaults(connection: Connection, table: Table) -> dict[str, str]:
    """The defaults of a table's columns, as expressions, by column."""
    rows = connection.execute(
        text(
            "SELECT a.attname::text, pg_get_expr(d.adbin, d.adrelid)"
            " FROM pg_attribute a"
            " JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
            " WHERE a.attrelid = :oid AND a.attgenerated = ''"
        ),
        {"oid": table.oid},
    )
    return {row[0]: row[1] for row in rows}


def create_temporary(
    connection: Connection,
    name: str,
    columns: Sequence[NewColumn],
    *,
    at_commit: Literal["DROP", "DELETE ROWS", "PRESERVE ROWS"] = "DROP",
) -> sa.TableClause:
    """Create a temporary table that is dropped, emptied or left alone at each commit.

    It is created with the first statement that comes after it.

    Returns:
        The table, for use in statements.
    """
    statement = sql.SQL("CREATE TEMP TABLE {} ({}) ON COMMIT {}").format(
        sql.Identifier(name), _columns(columns), sql.SQL(at_commit)
    )
    created = statement.as_bytes(driver_of(connection))
    hold(connection, Bound(created, kept=False))
    return sa.table(name, *(sa.column(c.name, NativeType(c.type)) for c in columns))


def empty_temporary(connection: Connection, name: str, *, anew: bool) -> None:
    """Empty a temporary table before the next statement.

    Parameters:
        anew: give back its space too, which takes longer; plans are made again then.
    """
    verb = "TRUNCATE" if anew else "DELETE FROM"
    statement = sql.SQL(f"{verb} {{}}").format(sql.Identifier("pg_temp", name))
    emptied = statement.as_bytes(driver_of(connection))
    hold(connection, Bound(emptied, kept=not anew))


def index_temporary(connection: Connection, name: str, column: str) -> None:
    """Build a unique index of a temporary table; cheapest after the table is filled."""
    raw(connection).execute(
        sql.SQL("CREATE UNIQUE INDEX ON pg_temp.{} ({})").format(
            sql.Identifier(name), sql.Identifier(column)
        )
    )


def add_key(
    connection: Connection,
    table: QualifiedName,
    columns: Sequence[str],
    *,
    primary: bool = False,
    like: Unique | None = None,
) -> None:
    """Add a primary key or unique constraint.

    Parameters:
        like: as for `key_statement`.
    """
    raw(connection).execute(key_statement(table, columns, primary=primary, like=like))


def key_statement(
    table: QualifiedName,
    columns: Sequence[str],
    *,
    primary: bool = False,
    like: Unique | None = None,
) -> sql.Composed:
    """The statement that adds a primary key or unique constraint.

    Parameters:
        like: a constraint that takes NULL for a value, and is deferrable, in the same
            way; by default neither.
    """
    kind = "UNIQUE"
    if primary:
        kind = "PRIMARY KEY"
    elif like is not None and like.nulls_not_distinct:
        kind = "UNIQUE NULLS NOT DISTINCT"
    return sql.SQL("ALTER TABLE {} ADD {} ({}){}").format(
        identifier(table),
        sql.SQL(kind),
        comma(identifiers(columns)),
        sql.SQL("" if like is None or not like.deferrable else f" {_when(like)}"),
    )


def _when(like: Unique | ForeignKey) -> str:
    """The clause by which a constraint is deferrable, with the same default."""
    return f"DEFERRABLE INITIALLY {'DEFERRED' if like.deferred else 'IMMEDIATE'}"


def add_foreign_key(
    connection: Connection,
    child: QualifiedName,
    parent: QualifiedName,
    key: ForeignKey,
) -> None:
    """Add a foreign key like the master's, not yet validated, and always deferrable."""
    raw(connection).execute(
        sql.SQL(
            "ALTER TABLE {} ADD CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({})"
            " ON DELETE {} ON UPDATE {} {} NOT VALID"
        ).format(
            identifier(child),
            sql.Identifier(key.name),
            comma(identifiers(key.columns)),
            identifier(parent),
            comma(identifiers(key.parent_columns)),
            _on_delete(key),
            sql.SQL(_ACTIONS[key.on_update]),
            sql.SQL(_when(key)),
        )
    )


def _on_delete(key: ForeignKey) -> sql.Composable:
    action = sql.SQL(_ACTIONS[key.on_delete])
    if not key.delete_columns:
        return action
    return sql.SQL("{} ({})").format(action, comma(identifiers(key.delete_columns)))


def validate_constraint(
    connection: Connection, table: QualifiedName, name: str
) -> None:
    """Check a constraint against the rows that are there."""
    raw(connection).execute(
        sql.SQL("ALTER TABLE {} VALIDATE CONSTRAINT {}").format(
            identifier(table), sql.Identifier(name)
        )
    )


def checked_view(
    view: QualifiedName,
    table: QualifiedName,
    columns: Sequence[str],
    condition: str | None,
    alias: str | None = None,
    *,
    replace: bool = False,
) -> sql.Composed:
    """Creates the view for users, who cannot write rows that fail the condition.

    Parameters:
        alias: the name of the table within the condition, if it is another one.
        replace: whether the view is there, with these columns.
    """
    statement = sql.SQL("CREATE {}VIEW {} AS SELECT {} FROM {}").format(
        sql.SQL("OR REPLACE " if replace else ""),
        identifier(view),
        comma(identifiers(columns)),
        identifier(table),
    )
    if condition is not None:
        if alias is not None:
            statement += sql.SQL(" AS {}").format(sql.Identifier(alias))
        statement += sql.SQL(" WHERE ({})").format(sql.SQL(condition))
    return statement + sql.SQL(" WITH CASCADED CHECK OPTION")


def create_view(connection: Connection, view: QualifiedName, query: str) -> None:
    """Create or replace a view over a query that SQLAlchemy rendered."""
    raw(connection).execute(
        sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(
            identifier(view), sql.SQL(query)
        )
    )


def drop_constraint(connection: Connection, table: QualifiedName, name: str) -> None:
    """Drop a constraint of a table."""
    raw(connection).execute(
        sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
            identifier(table), sql.Identifier(name)
        )
    )


def drop_table(connection: Connection, name: QualifiedName) -> None:
    """Drop a table, with foreign keys and views that refer to it."""
    raw(connection).execute(
        sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(identifier(name))
    )


@contextmanager
def dropping(what: str) -> Iterator[None]:
    """Name the objects that depend on something and keep the block from dropping it.

    Parameters:
        what: the object to drop, in the user's words.

    Raises:
        StillNeeded: views, foreign keys or functions of users depend on it.
    """
    try:
        yield
    except (DependentObjectsStillExist, InternalError) as error:
        cause = error.orig if isinstance(error, InternalError) else error
        if not isinstance(cause, DependentObjectsStillExist):
            raise
        needed = (cause.diag.message_detail or "").replace("\n", "; ")
        raise StillNeeded(f"{what} cannot be dropped: {needed}.") from None


def drop_view(connection: Connection, name: QualifiedName) -> None:
    """Drop a view, unless other views depend on it."""
    raw(connection).execute(sql.SQL("DROP VIEW IF EXISTS {}").format(identifier(name)))


def lock(connection: Connection, name: QualifiedName) -> None:
    """Lock a table against all other sessions until the transaction ends."""
    raw(connection).execute(
        sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(identifier(name))
    )


def truncate(connection: Connection, name: QualifiedName) -> None:
    """Empty a table to which no foreign key refers."""
    raw(connection).execute(sql.SQL("TRUNCATE TABLE {}").format(identifier(name)))


_ACTIONS = {
    "a": "NO ACTION",
    # RESTRICT cannot be deferred, so rows of a cycle could be deleted in no order.
    "r": "NO ACTION",
    "c": "CASCADE",
    "n": "SET NULL",
    "d": "SET DEFAULT",
}


def _columns(columns: Sequence[NewColumn]) -> sql.Composed:
    return sql.SQL(", ").join(_column(column) for column in columns)


def _column(column: NewColumn) -> sql.Composed:
    parts: list[sql.Composable] = [
        sql.Identifier(column.name),
        sql.SQL(column.type),
    ]
    if column.collation:
        parts.append(sql.SQL("COLLATE " + column.collation))
    if column.default is not None:
        form = "GENERATED ALWAYS AS ({}) STORED" if column.generated else "DEFAULT ({})"
        parts.append(sql.SQL(form).format(sql.SQL(column.default)))
    if not column.nullable:
        parts.append(sql.SQL("NOT NULL"))
    return sql.SQL(" ").join(parts)
