"""Rows as Arrow tables, in and out of a database, for Spark.

Rows that only pass from database to database travel by COPY
(`sites.transfer.transport`); this module is for rows that Spark must look at. Arrow
carries few of PostgreSQL's types exactly, so all others travel as text, and the
database casts them back (`carrier`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from sites.errors import NoConnectionFree, SnaptideError
from sites.extras import pa, pc
from sites.sessions import full
from snaptide_imports import lazily

if TYPE_CHECKING:
    from adbc_driver_postgresql import dbapi
    from pyarrow import csv as text_of_rows
else:
    text_of_rows = lazily("pyarrow.csv")
    dbapi = lazily("adbc_driver_postgresql.dbapi")

#: Types that come back from Arrow unchanged. Floats and times are not among them: as
#: text they travel without loss, NaN and infinity included.
_NATIVE = {
    "smallint": "int16",
    "integer": "int32",
    "bigint": "int64",
    "boolean": "bool",
    "text": "string",
    "character varying": "string",
    "bytea": "binary",
}

_SNAPSHOT = re.compile(r"[0-9A-F]{8}-[0-9A-F]{8}-[0-9]+")

#: Rows in a piece of CSV.
_PIECE_ROWS = 10_000

#: Only we use a stage: another session that locks it will not release it soon. And a
#: session whose lock we wait for may in turn wait for us in a way that no server can
#: detect as a deadlock.
_LOCK_TIMEOUT = "10s"


class ArrowTransportFailed(SnaptideError):
    """Rows could not be read from, or written to, a database as Arrow tables."""

    code = "SNP-020"
    hint = "Nothing was written. The message holds the database's own error."


def carrier(column_type: str) -> Literal["native", "text"]:
    """How values of a type travel: as Arrow's own type, or as text.

    Parameters:
        column_type: as `format_type()` prints it, for example `numeric(10,2)`.
    """
    return "native" if _plain(column_type) in _NATIVE else "text"


def schema(column_types: Iterable[str]) -> pa.Schema:
    """The Arrow schema of columns of these types, named by position `c1` to `cn`."""
    types = [
        pa.type_for_alias(_NATIVE.get(_plain(name), "string")) for name in column_types
    ]
    return pa.schema([(f"c{i}", carried) for i, carried in enumerate(types, start=1)])


def read(
    uri: str, sql: str, *, snapshot: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a query in a transaction of its own, REPEATABLE READ and READ ONLY.

    Parameters:
        uri: as `Site.libpq_uri()` gives it, with our settings.
        sql: the query; it casts values to text that must travel as text.
        snapshot: result of `pg_export_snapshot()`, to see the same moment.

    Raises:
        ArrowTransportFailed: the database refused; its message has no password.
        ValueError: `snapshot` is not the name of an exported snapshot.
    """
    with _reading(uri, snapshot) as cursor:
        cursor.execute(sql)
        yield from cursor.fetch_record_batch()


def read_table(uri: str, sql: str, *, snapshot: str | None = None) -> pa.Table:
    """Read all rows of a query as `read` does; without rows, still with its schema."""
    with _reading(uri, snapshot) as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table()


def ingest(
    uri: str,
    schema: str,
    table: str,
    batches: pa.RecordBatchReader | pa.Table | Sequence[pa.RecordBatch],
) -> int:
    """Add rows to a table that exists, by column name, and commit.

    If anything fails nothing is written, and the connection is closed: otherwise a
    failed load would leave it within COPY, and its lock in place.

    Returns:
        How many rows were written.

    Raises:
        ArrowTransportFailed: the database refused; its message has no password.
    """
    if isinstance(batches, Sequence):
        if not batches:
            return 0
        batches = pa.Table.from_batches(batches)
    with _connected(uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        rows = cursor.adbc_ingest(table, batches, mode="append", db_schema_name=schema)
        connection.commit()
    return int(rows)


def csv(table: pa.Table) -> Iterator[bytes]:
    """Rows as pieces of CSV for COPY: NULL is empty, any other value is quoted."""
    options = text_of_rows.WriteOptions(include_header=False, quoting_style="all_valid")
    for batch in table.to_batches(max_chunksize=_PIECE_ROWS):
        columns = [_hex(c) if pa.types.is_binary(c.type) else c for c in batch.columns]
        piece = pa.BufferOutputStream()
        printed = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        text_of_rows.write_csv(printed, piece, options)
        yield piece.getvalue().to_pybytes()


def texts(table: pa.Table) -> list[tuple[str | None, ...]]:
    """Rows of values as the database prints them; the reverse of `from_texts`."""
    columns = (printed(column).to_pylist() for column in table.columns)
    return list(zip(*columns, strict=True))


def printed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as the database prints them."""
    if pa.types.is_boolean(column.type):
        column = pc.if_else(column, "t", "f")
    elif pa.types.is_binary(column.type):
        column = pa.chunked_array([_hex(column)])
    return column.cast(pa.string())


def from_texts(rows: Sequence[Sequence[str | None]], schema: pa.Schema) -> pa.Table:
    """Make rows of values as the database prints them.

    Parameters:
        schema: as `schema()` makes it, in the order of the columns.
    """
    if not rows:
        return schema.empty_table()
    printed = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    columns = [_typed(p, one.type) for p, one in zip(printed, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _typed(printed: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pc.equal(printed, "t")
    if pa.types.is_binary(kind):
        each = (v and bytes.fromhex(v.removeprefix("\\x")) for v in printed.to_pylist())
        return pa.array(each, kind)
    return printed.cast(kind)


def _hex(values: pa.Array) -> pa.Array:
    """Binary values as the database prints them."""
    printed = (None if v is None else "\\x" + v.hex() for v in values.to_pylist())
    return pa.array(printed, pa.string())


@contextmanager
def _reading(uri: str, snapshot: str | None) -> Iterator[dbapi.Cursor]:
    if snapshot is not None and not _SNAPSHOT.fullmatch(snapshot):
        raise ValueError(f"{snapshot!r} is not the name of an exported snapshot")
    with _connected(uri) as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        if snapshot is not None:
            cursor.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        yield cursor


@contextmanager
def _connected(uri: str) -> Iterator[dbapi.Connection]:
    """Open a connection in a transaction; both end with the block."""
    try:
        # Closing rolls back uncommitted changes.
        opened = full.wait_for(lambda: dbapi.connect(uri, autocommit=False))
        with opened as connection:
            yield connection
    except dbapi.Error as error:
        kind = NoConnectionFree if full.has_no_room(error) else ArrowTransportFailed
        raise kind(without_password(str(error), uri), sqlstate=error.sqlstate) from None


def without_password(message: str, uri: str) -> str:
    """A driver's message without the password of the URI."""
    secret = urlsplit(uri).password
    for form in {secret, unquote(secret or "")} - {None, ""}:
        message = message.replace(str(form), "***")
    return message.strip()


def _plain(column_type: str) -> str:
    """The type without its length, which Arrow does not need."""
    return re.sub(r"^character varying\(\d+\)$", "character varying", column_type)
