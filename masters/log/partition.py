"""Columns whose values a snapshot log records, so that sites read their own changes.

A log has a column more for each, with a hash of the value: equal values have the same,
whatever they look like (1.0 and 1.00), and any value fits into an index. Two values may
share one; then a site reads a key too many. A row of the log without values, because it
is older than the declaration or the column was altered, has `UNKNOWN`, and every site
reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import sql
from sqlalchemy import ARRAY, ColumnElement, Connection, Text, literal_column, text

from masters.errors import CannotPartition, UnknownColumn
from sites import names
from sites.catalog import SCHEMA
from sites.sessions.exchange import raw
from sites.sessions.prepared import Prepared
from sites.tables.table import Column, Table
from sites.transfer.values import unsized

#: What their names in a log begin with; the name in the table follows.
PREFIX = "p$"

#: How many a log may have: each of them is an index that writers pay for.
MOST = 3

#: In the place of a hash: any value, or NULL.
UNKNOWN = 1

_NAMES = (
    "ARRAY(SELECT substr(a.attname, {start}) FROM pg_attribute a"
    " WHERE a.attrelid = to_regclass(format('%I.%I', '{schema}', {log}))"
    " AND starts_with(a.attname, '{prefix}') AND NOT a.attisdropped"
    " ORDER BY a.attnum)"
)


def of_row(log: ColumnElement[str]) -> ColumnElement[Sequence[str]]:
    """The partition columns of the log that a row names, in a statement with it."""
    return literal_column(_names(str(log)), ARRAY(Text))


def of_log(connection: Connection, log: str) -> tuple[str, ...]:
    """The partition columns of a log, in their order."""
    return tuple(_OF_LOG.run(connection, log=log).scalar_one())


def _names(log: str) -> str:
    start = len(PREFIX) + 1
    return _NAMES.format(start=start, schema=SCHEMA, log=log, prefix=PREFIX)


_OF_LOG = Prepared(text(f"SELECT {_names('CAST(:log AS text)')}"))


def places(columns: Iterable[str]) -> list[str]:
    """What partition columns are called in a log."""
    return [PREFIX + name for name in columns]


def hashed(kind: str, value: sql.Composable) -> sql.Composed:
    """The hash of a value, in SQL; equal ones have the same.

    Parameters:
        kind: its type, without domain and length. The hash of a record serves for all;
            those that are mostly used have one that costs a writer much less.
    """
    return sql.SQL(_HASHES.get(kind, "hash_record_extended(ROW({}), 0)")).format(value)


_OF_NUMBER = "hashint8extended({}::int8, 0)"
_OF_TEXT = "hashtextextended({}::text, 0)"
_HASHES = {
    "smallint": _OF_NUMBER,
    "integer": _OF_NUMBER,
    "bigint": _OF_NUMBER,
    "text": _OF_TEXT,
    "character varying": _OF_TEXT,
    "uuid": "uuid_hash_extended({}, 0)",
}


def declare(
    connection: Connection, log: str, table: Table, columns: Sequence[str]
) -> None:
    """Give a log these partition columns and no others; the caller keeps writers out.

    What the log holds already counts for every site, whatever it had before: it may
    have been recorded of a column of another type.

    Raises:
        UnknownColumn: the table has no such column.
        CannotPartition: there are too many, or one cannot be used.
    """
    _refuse_unfit(connection, table, columns)
    name = sql.Identifier(SCHEMA, log)
    driver = raw(connection)
    for place in places(of_log(connection, log)):
        drop = sql.SQL("ALTER TABLE {} DROP COLUMN {}")
        driver.execute(drop.format(name, sql.Identifier(place)))
    for place in places(columns):
        add = sql.SQL("ALTER TABLE {} ADD COLUMN {} bigint DEFAULT {}")
        driver.execute(add.format(name, sql.Identifier(place), sql.Literal(UNKNOWN)))
        index = sql.SQL("CREATE INDEX ON {} ({}, xid)")
        driver.execute(index.format(name, sql.Identifier(place)))


def _refuse_unfit(connection: Connection, table: Table, columns: Sequence[str]) -> None:
    if len({*columns}) < len(columns) or len(columns) > MOST:
        raise CannotPartition(
            f"A snapshot log has up to {MOST} partition columns, each of them once.",
            table=str(table.qualified),
        )
    for name in columns:
        if name not in table.names:
            raise UnknownColumn(
                f"{table.qualified} has no column {name}.",
                table=str(table.qualified),
                column=name,
            )
        reason = why_unfit(connection, table.column(name))
        if reason is not None:
            raise CannotPartition(
                f"Column {name} of {table.qualified} cannot be a partition column: "
                f"{reason}.",
                table=str(table.qualified),
                column=name,
            )


def why_unfit(connection: Connection, column: Column) -> str | None:
    """Why a log cannot record the values of a column; None if it can."""
    kind = column.recorded
    if len((PREFIX + column.name).encode()) > names.LIMIT:
        return f"its name has more than {names.LIMIT - len(PREFIX)} bytes"
    if column.generated == "v":
        return "its values are stored nowhere"
    if not column.deterministic:
        return "its collation treats different texts as equal"
    if column.equality is not None:
        return f"values of type {kind} are compared by {column.equality}"
    # PostgreSQL has the hash of varchar at the type text.
    hashed_as_another = unsized(kind) == "character varying"
    hashable = column.hashable or hashed_as_another or _is_enum(connection, kind)
    if not (column.comparable and hashable):
        return f"PostgreSQL has no hash for values of type {kind}"
    return None


def _is_enum(connection: Connection, kind: str) -> bool:
    query = text("SELECT typtype = 'e' FROM pg_type WHERE oid = to_regtype(:kind)")
    return bool(connection.scalar(query, {"kind": kind}))
