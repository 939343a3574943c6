"""Dividing a table into parts that can be read in parallel, whatever its key.

A part is a range of pages: PostgreSQL reads it without touching the others (TID range
scan), and the type of the key does not matter. All parts together are exactly the table
if they are read under one database snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection, Row, Table, Text, func, select
from sqlalchemy.dialects.postgresql import CHAR, OID, REAL, REGCLASS

from sites.names import QualifiedName, identifier
from sites.sessions.prepared import Prepared
from sites.sql import load
from sites.tables import locks
from sites.tables import table as tables
from sites.transfer.types import NativeType

#: Large enough that the start of a task costs little in comparison.
PART_BYTES = 64 * 2**20

#: A table is not divided further for the sake of readers side by side.
_LEAST_BYTES = 16 * 2**20

_pg = sa.MetaData(schema="pg_catalog")
_CLASS = Table(
    "pg_class",
    _pg,
    Column("oid", OID),
    Column("relname", Text),
    Column("relnamespace", OID),
    Column("relkind", CHAR(1)),
    Column("relam", OID),
    Column("relfilenode", OID),
    Column("relpersistence", CHAR(1)),
    Column("reltuples", REAL),
    Column("reltoastrelid", OID),
)
_NAMESPACE = Table("pg_namespace", _pg, Column("oid", OID), Column("nspname", Text))
_INHERITS = Table("pg_inherits", _pg, Column("inhrelid", OID), Column("inhparent", OID))
_METHOD = Table("pg_am", _pg, Column("oid", OID), Column("amname", Text))

_PARTS_SINCE = Prepared(sa.text(load("parts_since")))


def ctid(source: sa.FromClause) -> ColumnElement[Any]:
    """The places of the rows of a table, by page and number."""
    column = sa.column("ctid", NativeType("tid"))
    column.table = source
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range of pages of one table, or of one partition."""

    #: The table to read, without tables that inherit from it.
    table: QualifiedName
    #: First page; None if the whole table is one part.
    first: int | None = None
    #: The page after the last one; None if the range has no end.
    end: int | None = None
    #: about how many bytes it has, with values that are stored apart (TOAST)
    bytes: int = field(default=0, compare=False)

    def predicate(self, source: sa.FromClause) -> ColumnElement[bool]:
        """The condition that a row of `source`, which is `table`, is in the range."""
        if self.first is None:
            return sa.true()
        place = ctid(source)
        bounds = [place >= _tid(self.first)]
        if self.end is not None:
            bounds.append(place < _tid(self.end))
        return sa.and_(*bounds)

    def restrict(self, query: sa.Select[Any], source: sa.FromClause) -> sa.Select[Any]:
        """Restrict a query that reads `source`, which is `table`, to the range."""
        only = query.with_hint(source, "ONLY", "postgresql")
        return only if self.first is None else only.where(self.predicate(source))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A table that holds rows."""

    name: QualifiedName
    #: as in `sites.tables.glance.Glance`
    file: int
    #: bytes of values that are stored apart (TOAST)
    apart: int = 0


def leaves(connection: Connection, table: QualifiedName) -> dict[int, Leaf]:
    """The tables that hold the rows of a table, by oid.

    The table itself, its partitions, and tables that inherit from it.
    """
    return leaves_of_all(connection, [table])[0]


def leaves_of_all(
    connection: Connection, tables: Sequence[QualifiedName]
) -> list[dict[int, Leaf]]:
    """The same for several tables, in one round trip."""
    asked = [_LEAVES.hold(connection, table=_shown(table)) for table in tables]
    return [
        {
            leaf.oid: Leaf(
                name=QualifiedName(leaf.nspname, leaf.relname),
                file=leaf.file,
                apart=leaf.apart,
            )
            for leaf in found.answer()
        }
        for found in asked
    ]


def parts_since(
    connection: Connection, table: QualifiedName, position: str
) -> dict[int, QualifiedName]:
    """The parts of a table that came to it after a position, or came back, by oid.

    Nothing need have recorded what was changed of them before.
    """
    asked = {"table": _shown(table), "since": position}
    rows = _PARTS_SINCE.run(connection, **asked)
    return {row.oid: QualifiedName(row.nspname, row.relname) for row in rows}


def came_since(
    connection: Connection,
    table: tables.Table,
    parts: Collection[int],
    position: str | None,
) -> Collection[int]:
    """The same for a table whose `leaves` are known; none if there is no position."""
    if position is None or set(parts) == {table.oid}:
        return ()
    return parts_since(connection, table.qualified, position).keys()


def ctid_ranges(
    connection: Connection,
    table: QualifiedName,
    parts: int | None = None,
    *,
    part_bytes: int | None = None,
    at_once: int = 1,
) -> list[Range]:
    """Divide a table, or each of its partitions, into ranges of pages.

    Call it in the transaction whose database snapshot the readers will see, and keep
    that open until they have read: it locks the table (ACCESS SHARE), because CLUSTER
    or VACUUM FULL in between would move rows from range to range.

    Parameters:
        table: read with all its partitions and the tables that inherit from it.
        parts: how many ranges there should be in all; each partition has at
            least one. By default, one for each `part_bytes`, which are 64 MB if not
            given; values that are stored apart (TOAST) count.
        at_once: how many ranges are read at a time. If the table is large, there are
            so many, or a multiple, so that the last one is not read alone.
    """
    locks.against_ddl(connection, table)
    found = _found(connection, table)
    total = sum(leaf.bytes + leaf.apart for leaf in found)
    size = part_bytes or PART_BYTES
    if parts is not None:
        size = max(total // max(parts, 1), 1)
    elif at_once > 1:
        number = max(round(total / size), 1)
        number += -number % at_once
        size = size if number * _LEAST_BYTES > total else total // number
    return [part for leaf in found for part in _divide(leaf, size)]


def pages_of(
    connection: Connection, table: QualifiedName
) -> list[tuple[QualifiedName, int]]:
    """The tables that hold the rows of a table, each with its number of pages.

    The number is 0 if a table is empty, or has no pages that can be read apart. To be
    called as `ctid_ranges`.
    """
    locks.against_ddl(connection, table)
    return [
        (
            QualifiedName(leaf.nspname, leaf.relname),
            leaf.bytes // leaf.block if leaf.has_pages else 0,
        )
        for leaf in _found(connection, table)
    ]


def bytes_apart(tables: Collection[int]) -> sa.ScalarSelect[Any]:
    """An expression: by oid of tables, the bytes of values that are stored apart."""
    apart = _bytes(_CLASS.c.reltoastrelid)
    found = select(func.json_object_agg(_CLASS.c.oid, apart))
    return found.where(_CLASS.c.oid.in_(tables)).scalar_subquery()


def rows_within(connection: Connection, table: QualifiedName, size: int) -> float:
    """About how many rows of a table take this many bytes on disk.

    By the statistics of the last VACUUM or ANALYZE, or where neither has run yet by the
    rows that sessions have counted, with values stored apart (TOAST).

    Returns:
        Infinity if the whole table takes no more; 0 if nothing has counted its rows.
    """
    found = _leaves(sa.literal(_shown(table))).subquery()
    live = func.pg_stat_get_live_tuples(found.c.oid)
    counted = sa.case((_CLASS.c.reltuples > 0, _CLASS.c.reltuples), else_=live)
    totals = select(
        func.sum(func.pg_table_size(found.c.oid)), func.sum(counted)
    ).join_from(found, _CLASS, _CLASS.c.oid == found.c.oid)
    taken, rows = connection.execute(totals).one()
    if not taken or taken <= size:
        return math.inf
    return (rows or 0) / float(taken) * size


def rows_about(connection: Connection, table: QualifiedName) -> int | None:
    """About how many rows a table has, by the same statistics; None if unknown."""
    found = _leaves(sa.literal(_shown(table))).subquery()
    rows = select(func.sum(func.greatest(_CLASS.c.reltuples, 0))).join_from(
        found, _CLASS, _CLASS.c.oid == found.c.oid
    )
    return int(connection.scalar(rows) or 0) or None


def _divide(leaf: Row[Any], size: int) -> Sequence[Range]:
    name = QualifiedName(leaf.nspname, leaf.relname)
    pages = leaf.bytes // leaf.block
    total = leaf.bytes + leaf.apart
    count = min(max(round(total / size), 1), max(pages, 1))
    if count == 1 or not leaf.has_pages:
        return [Range(table=name, bytes=total)]
    starts = [pages * i // count for i in range(count)]
    return [
        Range(table=name, first=first, end=end, bytes=total // count)
        for first, end in zip(starts, [*starts[1:], None], strict=True)
    ]


def _shown(table: QualifiedName) -> str:
    return identifier(table).as_string()


def _found(connection: Connection, table: QualifiedName) -> Sequence[Row[Any]]:
    return _LEAVES.run(connection, table=_shown(table)).all()


def _leaves(table: ColumnElement[str]) -> sa.Select[Any]:
    """All tables below this one that hold rows of their own, with their sizes."""
    root = sa.cast(table, REGCLASS)
    tree = select(sa.cast(root, OID).label("oid")).cte("tree", recursive=True)
    children = select(_INHERITS.c.inhrelid).where(_INHERITS.c.inhparent == tree.c.oid)
    # UNION, not UNION ALL: a table can inherit from two others below the root.
    tree = tree.union(children)
    above = _INHERITS.alias("above")
    part_of_another = sa.exists().where(
        above.c.inhrelid == _CLASS.c.oid, above.c.inhparent.not_in(select(tree.c.oid))
    )
    # Statements on the other table fire no trigger of this one.
    noticed = sa.and_(_CLASS.c.relpersistence == "p", sa.not_(part_of_another))
    return (
        select(
            _CLASS.c.oid,
            _NAMESPACE.c.nspname,
            _CLASS.c.relname,
            sa.case((noticed, _CLASS.c.relfilenode), else_=0).label("file"),
            _bytes(_CLASS.c.oid).label("bytes"),
            _bytes(_CLASS.c.reltoastrelid).label("apart"),
            sa.cast(func.current_setting("block_size"), sa.Integer).label("block"),
            func.coalesce(_METHOD.c.amname == "heap", False).label("has_pages"),
        )
        .join_from(tree, _CLASS, _CLASS.c.oid == tree.c.oid)
        .join(_NAMESPACE, _NAMESPACE.c.oid == _CLASS.c.relnamespace)
        .outerjoin(_METHOD, _METHOD.c.oid == _CLASS.c.relam)
        .where(_CLASS.c.relkind != "p")
        .order_by(_NAMESPACE.c.nspname, _CLASS.c.relname)
    )


def _bytes(table: ColumnElement[Any]) -> ColumnElement[int]:
    """The size of a table's pages; 0 if there is no such table."""
    return func.coalesce(func.pg_relation_size(table), 0)


_LEAVES = Prepared(_leaves(sa.bindparam("table", type_=Text)))


def _tid(page: int) -> ColumnElement[Any]:
    return sa.cast(
        sa.bindparam(None, f"({page},0)", Text, literal_execute=True), NativeType("tid")
    )
