"""Which rows of a master's log can be about rows of a snapshot.

Where the log records values of a column (`masters.log.partition`), and the
condition demands one of some constants for it, only log rows with such a value can: a
row that has come has it now, and one that has left had it before. The others need not
be read. Where the master would compare otherwise than it hashes, all are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection, Row

from masters.log import log_function, partition
from sites.capture import position
from sites.conditions.constants import Constants, demanded
from sites.sessions.exchange import raw
from sites.tables.table import Column, Table
from sites.transfer.values import unsized
from snapshots.definitions.snapshot import Snapshot

#: Hashes by the name of a log's column.
Values = Mapping[str, tuple[int, ...]]

#: Types whose values are equal and hashed across types, by the widest of them.
_FAMILIES = {
    "smallint": "bigint",
    "integer": "bigint",
    "real": "double precision",
    "character varying": "text",
}


def values(
    master: Connection, snapshot: Snapshot, table: Table, log: Row[Any]
) -> Values:
    """The values of partition columns that a snapshot's rows have.

    The column has to be among the snapshot's: only of these a refresh sees that they
    are others now, and then compares all rows.

    Parameters:
        table: the master table.
        log: its log, with some `partition_columns`.

    Returns:
        For each column of the log that tells rows of the snapshot from others, the
        hashes that it has in theirs.
    """
    asked = {
        name: constants
        for name, constants in telling(snapshot, table).items()
        if name in log.partition_columns
    }
    found = {
        name: _hashes(master, log, table, table.column(name), constants)
        for name, constants in sorted(asked.items())
    }
    return {
        place: hashes
        for place, hashes in zip(partition.places(found), found.values(), strict=True)
        if hashes is not None
    }


def telling(snapshot: Snapshot, table: Table) -> Mapping[str, tuple[Constants, ...]]:
    """Columns by which a log that records them can tell a snapshot's rows from others.

    Parameters:
        table: the master table.

    Returns:
        For each, the constants of which all rows of the snapshot have one.
    """
    return {
        name: constants
        for name, constants in demanded(snapshot.parts.shape).items()
        if name in snapshot.columns
        and name in table.names
        and all(_fits(table.column(name), one) for one in constants)
    }


def restricting(
    log: sa.FromClause, wanted: Values, since: str | sa.ColumnElement[str]
) -> list[sa.ColumnElement[bool]]:
    """Whether a row of the log can be about a row of the snapshot.

    Parameters:
        since: the position whose window is read. Its oldest open transaction is where
            a scan of the index over values and transactions begins; what is before it,
            no window has.
    """
    oldest = sa.func.pg_snapshot_xmin(position.value(since))
    mine = [
        log.c[place].in_([partition.UNKNOWN, *hashes])
        for place, hashes in wanted.items()
    ]
    return [*mine, log.c.xid >= oldest]


def _fits(column: Column, one: Constants) -> bool:
    """Whether a comparison is one of the column's own values."""
    if not column.deterministic or column.equality is not None:
        return False
    kind = unsized(column.recorded)
    casts = {None, kind}
    if _family(kind) == "text":
        casts.add("text")
    return one.cast in casts


def _hashes(
    master: Connection,
    log: Row[Any],
    table: Table,
    column: Column,
    constants: Sequence[Constants],
) -> tuple[int, ...] | None:
    """The hashes of constants; None if one has a type that is hashed otherwise.

    None, too, if the table has other columns than the log was given: then it may hold
    hashes of values of another type.
    """
    kind = unsized(column.recorded)
    alike = [kind, *(one for one in _RELATED if _family(one) == _family(kind))]
    query = sql.SQL(
        "SELECT DISTINCT CASE WHEN pg_typeof(v) = ANY ({}::text[]::regtype[]) AND {}"
        " THEN {} END FROM ({}) AS constants(v)"
    ).format(
        sql.Literal(alike),
        log_function.knows(table, log.log_table, log.partition_columns),
        partition.hashed(kind, sql.SQL("v")),
        sql.SQL(" UNION ALL ").join(map(_each, constants)),
    )
    found: set[Any] = {row[0] for row in raw(master).execute(query)}
    return None if None in found else tuple(sorted(found))


def _each(one: Constants) -> sql.Composed:
    select = "SELECT unnest({})" if one.is_list else "SELECT {}"
    return sql.SQL(select).format(sql.SQL(one.text))


def _family(kind: str) -> str:
    return _FAMILIES.get(kind, kind)


_RELATED = (*_FAMILIES, *{*_FAMILIES.values()})
