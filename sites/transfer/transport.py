"""The one bulk transport between databases: COPY, passed through unparsed.

The destination reads what the source prints, and nothing in between looks at a value,
so every type arrives unchanged (`SETTINGS` in `sites.sessions.settings` make both ends
print and read alike). Errors are SQLAlchemy's, as of any statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, cast

import psycopg
import sqlalchemy as sa
from psycopg import errors, generators, sql
from psycopg.pq import ExecStatus
from sqlalchemy import Connection, Select, SelectBase, TableClause
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from sites import faults
from sites.names import comma, identifiers
from sites.progress import RowsDone
from sites.sessions.exchange import Bound, Later, exchange, hold, raw, reported
from sites.sessions.exchange import send as send_apart

#: The protocol counts the values of a statement in two bytes.
MOST_VALUES = 65_535

#: Building the statement for so few rows takes longer than running it.
FEW = 8

#: How many bytes of a COPY are handed on at a time.
PIECE = 64 * 1024

#: Progress of a COPY is reported each time after this many rows.
COUNTED = 10_000

_OUT = sql.SQL("COPY ({}) TO STDOUT")
_DELETING = sql.SQL("DELETE FROM {}")

_DIALECT = postgresql.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]


def copy(
    source: Connection,
    select: Select[tuple[object, ...]] | str,
    target: Connection,
    table: TableClause,
    columns: Sequence[str],
    *,
    few: int = 0,
    on_progress: RowsDone | None = None,
) -> int:
    """Copy the rows of a query into a table of another database.

    Parameters:
        source, target: connections; neither is committed here.
        select: query with the columns that `columns` names, in that order; or its
            text, if the caller keeps it.
        table: the table to which the rows are added.
        few: fewer rows than this are sent as values of one statement.
        on_progress: called from time to time with the number of rows sent.

    Returns:
        How many rows were written.
    """
    query = select if isinstance(select, str) else literal_text(select)
    out = _OUT.format(sql.SQL(query))
    with (
        reported(source, target),
        raw(source).cursor() as reader,
        raw(target).cursor() as writer,
    ):
        with reader.copy(out) as rows:
            first = list(islice(rows.rows(), few))
            if few and len(first) < few:
                return _insert(target, table, columns, first)
            faults.point("transport.before_copy")
            with writer.copy(copy_in(table, columns)) as sink:
                for row in first:
                    sink.write_row(row)
                hand_on(rows, sink.write, on_progress)
        return writer.rowcount


def send(
    source: Connection,
    setting: Bound,
    query: str,
    target: Connection,
    table: TableClause,
    columns: Sequence[str],
) -> int:
    """Copy a few rows as `copy` does, in place of those that the table has.

    They are written with what the caller asks of the target next.
    For a query that a session repeats often. It is a transaction of its own, if the
    source is in none.

    Parameters:
        setting: run before the query.
        query: the text of the query; a session plans it once. Its columns must keep
            their types as long as the session lasts.
    """
    found = send_apart(source, setting, Bound(query.encode()))[-1].texts()
    if not found:
        with reported(target), raw(target).cursor() as writer:
            writer.execute(_DELETING.format(_name(table)))
        return 0
    put(target, table, columns, found, instead=True)
    return len(found)


def rows(source: Connection, query: str) -> Iterator[tuple[str | None, ...]]:
    """The rows of a query as texts, one after the other."""
    out = _OUT.format(sql.SQL(query))
    with (
        reported(source),
        raw(source).cursor() as reader,
        reader.copy(out) as found,
    ):
        yield from cast("Iterator[tuple[str | None, ...]]", found.rows())


def ask(source: Connection, *queries: SelectBase | Bound) -> list[Later]:
    """Send queries that find few rows, and go on; read the `texts` of each afterwards.

    They share a round trip. Rows of the same values are printed alike, by whatever
    database.
    """
    if not queries:
        return []
    raw(source)  # begins a transaction, whose moment they see
    return send_apart(source, *map(_bound, queries))


def _bound(query: SelectBase | Bound) -> Bound:
    if isinstance(query, Bound):
        return query
    return Bound(literal_text(query).encode(), kept=False)


def copy_out(source: Connection, query: str, write: Callable[[bytes], object]) -> int:
    """Hand out the rows of a query as COPY prints them; return how many they are."""
    out = _OUT.format(sql.SQL(query))
    with (
        reported(source),
        raw(source).cursor() as reader,
        reader.copy(out) as found,
    ):
        return hand_on(found, write)


def copy_pieces(
    target: Connection,
    table: TableClause,
    columns: Sequence[str],
    pieces: Iterable[bytes],
) -> int:
    """Copy rows that `copy_out` has handed out into a table; return how many."""
    return _written(target, copy_in(table, columns), pieces)


def copied(
    source: Connection,
    select: Select[tuple[object, ...]],
    target: Connection,
    name: str,
    /,
    **types: type[TypeEngine[Any]] | TypeEngine[Any],
) -> TableClause:
    """Copy the rows of a query into a temporary table, which the commit drops.

    Parameters:
        source, target: as for `copy`.
        name: of the table.
        **types: of its columns, in the query's order.
    """
    made = sa.Table(
        name,
        sa.MetaData(),
        *(sa.Column(column, kind) for column, kind in types.items()),
        prefixes=["TEMPORARY"],
        postgresql_on_commit="DROP",
    )
    made.create(target, checkfirst=False)
    table = sa.table(name, *(sa.column(column, kind) for column, kind in types.items()))
    copy(source, select, target, table, [*types])
    return table


def copy_rows(
    target: Connection,
    table: TableClause,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> int:
    """Copy rows of text values (None is NULL) into a table; the database casts them.

    Returns:
        How many rows were written.
    """
    with reported(target), raw(target).cursor() as writer:
        with writer.copy(copy_in(table, columns)) as sink:
            for row in rows:
                sink.write_row(row)
        return writer.rowcount


def copy_csv(
    target: Connection,
    table: TableClause,
    columns: Sequence[str],
    pieces: Iterable[bytes],
) -> int:
    """Copy rows into a table, in the form that `sites.transfer.arrow.csv` makes.

    Returns:
        How many rows were written.
    """
    into = copy_in(table, columns) + sql.SQL(" (FORMAT csv, ENCODING 'UTF8')")
    return _written(target, into, pieces)


def _written(target: Connection, into: sql.Composed, pieces: Iterable[bytes]) -> int:
    with reported(target), raw(target).cursor() as writer:
        with writer.copy(into) as sink:
            for piece in pieces:
                sink.write(piece)
        return writer.rowcount


def hand_on(
    rows: psycopg.Copy,
    write: Callable[[bytes], object],
    on_progress: RowsDone | None = None,
) -> int:
    """Hand on all rows that a COPY has left, several in one piece; return how many.

    psycopg reads each row by five calls in Python, and a server that prints rows of 80
    characters waits for that more than half of the time. What libpq holds already is
    taken from it here, and psycopg waits for the rest.

    Parameters:
        rows: a COPY to STDOUT that a cursor has begun, of text or of binary.
        write: takes a piece.
        on_progress: called from time to time with the number of rows handed on.

    Raises:
        psycopg.Error: the COPY failed, or the connection was lost.
    """
    driver = rows.connection
    held, count = driver.pgconn, 0
    piece = bytearray()
    while True:
        size, row = held.get_copy_data(1)
        if size < 0:
            _end(driver)
            break
        # 0 says that libpq does not have a whole row.
        found = row if size else rows.read()
        if not found:
            break
        count += 1
        piece += found
        if len(piece) >= PIECE:
            write(bytes(piece))
            piece.clear()
        if on_progress and count % COUNTED == 0:
            on_progress(count)
    if piece:
        write(bytes(piece))
    return count


def _end(driver: psycopg.Connection[Any]) -> None:
    """Read the server's last word on a COPY.

    Raises:
        psycopg.Error: it failed.
    """
    last = driver.wait(generators.fetch_many(driver.pgconn))[-1]
    if last.status != ExecStatus.COMMAND_OK:
        raise errors.error_from_result(last, driver.info.encoding)


def literal_text(query: SelectBase) -> str:
    """A query as text with its values in it, for COPY and DDL without parameters."""
    compiled = query.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True})
    # The compiler doubles percent signs for the driver, which replaces them only in
    # statements with parameters.
    return str(compiled).replace("%%", "%")


def copy_in(table: TableClause, columns: Sequence[str]) -> sql.Composed:
    """The COPY statement that writes rows into these columns of a table."""
    return sql.SQL("COPY {} ({}) FROM STDIN").format(
        _name(table), comma(identifiers(columns))
    )


def put(
    target: Connection,
    table: TableClause,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    *,
    instead: bool = False,
) -> None:
    """Have a few rows of text written to a table with the next statement.

    Parameters:
        instead: of the rows that the table has.
    """
    for one in _inserts(table, columns, rows, instead=instead):
        hold(target, one)


def _insert(
    target: Connection,
    table: TableClause,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
) -> int:
    """Write rows of text, and return how many."""
    each = list(_inserts(table, columns, rows))
    return sum(one.rowcount for one in exchange(target, *each)) if each else 0


def _inserts(
    table: TableClause,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    instead: bool = False,
) -> Iterator[Bound]:
    """What writes rows of text, which it casts to the columns' types.

    More than one statement if the values are too many for one.

    Parameters:
        instead: of the rows that the table has.
    """
    most = MOST_VALUES // len(columns)
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        build = _inserting if len(some) <= FEW else _inserting.__wrapped__
        first = instead and not start
        statement = build(_parts(table), tuple(columns), len(some), first)
        yield Bound(statement, [*chain.from_iterable(some)], kept=False)


@lru_cache(maxsize=256)
def _inserting(
    parts: tuple[str, ...], columns: tuple[str, ...], rows: int, instead: bool
) -> bytes:
    """The INSERT of so many rows; those of few are kept."""
    numbers = iter(range(1, rows * len(columns) + 1))
    line = [
        sql.SQL("({})").format(comma(sql.SQL(f"${next(numbers)}") for _ in columns))
        for _ in range(rows)
    ]
    name = sql.Identifier(*parts)
    statement = sql.SQL("INSERT INTO {} ({}) VALUES {}").format(
        name, comma(identifiers(columns)), comma(line)
    )
    if instead:
        # It deletes the rows of before: the two parts see the table as it was.
        gone = sql.SQL("WITH gone AS ({}) ").format(_DELETING.format(name))
        statement = gone + statement
    return statement.as_bytes()


def _parts(table: TableClause) -> tuple[str, ...]:
    return tuple(part for part in (table.schema, table.name) if part)


def _name(table: TableClause) -> sql.Identifier:
    return sql.Identifier(*_parts(table))
