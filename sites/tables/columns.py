"""Altering the columns of tables and views that are in use.

None of it rewrites a table, but for some types: PostgreSQL only changes its catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from psycopg import errors, sql
from sqlalchemy import Connection

from sites.errors import StillNeeded
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw

#: What a column is called on its way to a name that another still has.
_BETWEEN = "snaptide$between$"


def is_immutable(connection: Connection, expression: str) -> bool:
    """Whether an expression without columns has the same value at all times.

    The database itself decides, as for the predicate of an index.
    """
    driver = raw(connection)
    try:
        with driver.transaction(force_rollback=True):
            driver.execute("CREATE TEMP TABLE snaptide_default (x integer)")
            driver.execute(
                sql.SQL(
                    "CREATE INDEX ON pg_temp.snaptide_default (x)"
                    " WHERE (({}\n)) IS NOT NULL"
                ).format(sql.SQL(expression))
            )
    except errors.InvalidObjectDefinition:
        return False
    return True


def is_written_anew(connection: Connection, before: str, after: str) -> bool:
    """Whether PostgreSQL writes all rows anew to give a column another type.

    The database itself decides, with an empty table.
    """
    driver = raw(connection)
    with driver.transaction(force_rollback=True):
        driver.execute(
            sql.SQL("CREATE TEMP TABLE snaptide_type (x {})").format(sql.SQL(before))
        )
        first = driver.execute(_FILE).fetchone()
        driver.execute(
            sql.SQL("ALTER TABLE pg_temp.snaptide_type ALTER x TYPE {}").format(
                sql.SQL(after)
            )
        )
        return driver.execute(_FILE).fetchone() != first


#: What PostgreSQL says of triggers, generated columns and functions.
_NEEDS_TYPE = (
    errors.FeatureNotSupported,
    errors.SyntaxError,
    errors.UndefinedFunction,
    errors.DatatypeMismatch,
)
_FILE = "SELECT pg_relation_filenode('pg_temp.snaptide_type'::regclass)"


def widen(
    connection: Connection, table: QualifiedName, types: Mapping[str, str]
) -> None:
    """Give columns of a table types that hold all values which they have.

    Parameters:
        types: by column, the type with its collation.

    Raises:
        StillNeeded: something that uses a column fits only its present type.
    """
    actions = [
        sql.SQL("ALTER {} TYPE {}").format(sql.Identifier(name), sql.SQL(type_))
        for name, type_ in types.items()
    ]
    altered = sql.SQL("ALTER TABLE {} {}").format(
        identifier(table), sql.SQL(", ").join(actions)
    )
    try:
        raw(connection).execute(altered)
    except _NEEDS_TYPE as error:
        said = [error.diag.message_primary, error.diag.message_detail]
        why = ": ".join(one for one in said if one)
        columns = ", ".join(types)
        raise StillNeeded(f"Column {columns} cannot be widened: {why}.") from None


def drop(connection: Connection, table: QualifiedName, columns: Iterable[str]) -> None:
    """Drop columns of a table, unless something depends on them."""
    actions = [sql.SQL("DROP {}").format(sql.Identifier(name)) for name in columns]
    raw(connection).execute(
        sql.SQL("ALTER TABLE {} {}").format(
            identifier(table), sql.SQL(", ").join(actions)
        )
    )


def rename(
    connection: Connection,
    relation: QualifiedName,
    names: Mapping[str, str],
    *,
    view: bool = False,
) -> None:
    """Rename columns of a table or view; they may exchange names.

    Parameters:
        names: the new names, by those that they have.
    """
    taken = names.keys() & {*names.values()}
    between = {name: f"{_BETWEEN}{n}" for n, name in enumerate(sorted(taken))}
    steps = [*between.items()]
    steps += [(between.get(old, old), new) for old, new in names.items()]
    kind = sql.SQL("VIEW" if view else "TABLE")
    for old, new in steps:
        raw(connection).execute(
            sql.SQL("ALTER {} {} RENAME COLUMN {} TO {}").format(
                kind, identifier(relation), sql.Identifier(old), sql.Identifier(new)
            )
        )
