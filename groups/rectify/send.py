"""Queues calls that give a target the rows of the reference.

The old values of a call are the row that the target has at the moment that is held; the
new values are the row of the reference, locked until the calls are committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, TableClause, Text, and_, case, cast, func, select

from deferred.queues import on_behalf
from deferred.queues.queue import Queue
from deferred.queues.target_columns import captured_columns
from groups import table_queue
from groups.check.rows import Rows
from sites import QualifiedName
from sites.extras import pa
from sites.names import numbered
from sites.tables import ddl
from sites.tables.analyze import analyze
from sites.tables.ddl import NewColumn
from sites.tables.table import Column
from sites.transfer import transport
from sites.transfer.types import NativeType
from snapshots import keys
from snapshots.check.reasons import RECTIFY
from snapshots.definitions.snapshot import key_types
from snapshots.keys import Keys

#: Fewer rows than this travel as values of a statement.
_FEW = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The queue that corrections of a table take, and its columns at the sender."""

    calls: Queue
    columns: tuple[Column, ...]

    @property
    def key(self) -> list[int]:
        """The places of the columns that identify a row."""
        calls = self.calls
        return [calls.columns.index(name) for name in calls.identity_columns]


def lock(now: Connection, reference: Rows, wanted: Keys) -> Keys:
    """Lock rows of the reference, and say which are as they were at its moment.

    Rows that are not there count too. Those that other sessions have locked or changed
    are left out. Rows that refer to locked ones may be added meanwhile.

    Parameters:
        now: a session at the reference; it keeps the locks until it commits.
    """
    before = _versions(reference.side.at, reference, wanted)
    locked = _versions(now, reference, wanted, lock=True)
    # By a statement of its own, which also sees rows that were added meanwhile.
    there = _versions(now, reference, wanted)
    same = [
        before.get(number) == locked.get(number) == there.get(number)
        for number in range(wanted.num_rows)
    ]
    return wanted.filter(pa.array(same, pa.bool_()))


def way_to(connection: Connection, table: QualifiedName, target: str) -> Way:
    """The queue by which corrections of a table go from a master to a target.

    Raises:
        UnknownTable, UnknownColumn: the table, or one of its columns, is gone.
    """
    found = table_queue.found(connection, table)
    calls = next(one for one in found if one.destination == target)
    base, called = captured_columns(connection, calls)
    columns = tuple(base.column(called[name]) for name in calls.columns)
    return Way(calls=calls, columns=columns)


def send(
    connection: Connection,
    way: Way,
    now: Connection,
    pair: tuple[Rows, Rows],
    wanted: Keys,
) -> int:
    """Queue a call for each of these rows that is not the same at both masters.

    Writes the queue and deferred_transaction; commits nothing.

    Parameters:
        connection: at the sender.
        now: the session at the reference that has locked the rows.
        pair: the table at the reference, and at the target: its rows at that moment are
            what the calls begin with.

    Returns:
        How many calls were queued.
    """
    reference, target = pair
    oid = reference.table.oid
    theirs = _stage(connection, way, "o", f"snaptide_rectify_old_{oid}")
    ours = _stage(connection, way, "n", f"snaptide_rectify_new_{oid}")
    for source, rows, stage in (
        (target.side.at, target, theirs),
        (now, reference, ours),
    ):
        transport.copy(
            source,
            _carried(rows, way.calls.columns, wanted),
            connection,
            stage,
            [column.name for column in stage.c],
            few=_FEW,
        )
        analyze(connection, stage)
    group = str(way.calls.group_id)
    sources = {group: table_queue.correction(way.calls.destination)}
    return on_behalf.queue_calls(
        connection, way.calls, RECTIFY, _calls(way, theirs, ours), sources=sources
    )


def _versions(
    connection: Connection, rows: Rows, wanted: Keys, *, lock: bool = False
) -> dict[int, str]:
    """Which version of each wanted row a session sees, by the row's number."""
    table = rows.table
    asked = keys.numbered(wanted, key_types(table, table.key))
    columns = (sa.column(c.name, c.sql_type) for c in table.columns)
    place: list[sa.ColumnClause[Any]] = [
        sa.column(name) for name in ("tableoid", "ctid", "xmin")
    ]
    source = sa.table(table.name, *place, *columns, schema=table.schema)
    names = dict(zip(rows.key_names, table.key, strict=True))
    same = keys.same(rows.key_names, asked, lambda name: source.c[names[name]])
    version = func.concat_ws(" ", *(cast(source.c[one.name], Text) for one in place))
    query = select(asked.c.no, version).join_from(asked, source, same)
    if lock:
        query = query.with_for_update(of=source, skip_locked=True, key_share=True)
    return {int(no): str(found) for no, found in connection.execute(query)}


def _stage(connection: Connection, way: Way, side: str, name: str) -> TableClause:
    """A temporary table for rows with the columns of the queue."""
    columns = [
        NewColumn(name=place, type=column.staged_type.name, collation=column.collation)
        for place, column in zip(numbered(side, way.columns), way.columns, strict=True)
    ]
    return ddl.create_temporary(connection, name, columns)


def _carried(rows: Rows, columns: Sequence[str], wanted: Keys) -> sa.Select[Any]:
    """The rows with these keys, by the columns that are carried."""
    table = rows.table.sql()
    query = select(*(table.c[name] for name in columns))
    return query.where(rows.among(table, wanted))


def _calls(way: Way, theirs: TableClause, ours: TableClause) -> sa.Select[Any]:
    """The calls that give the target the rows, as `queue_calls` takes them."""
    old, new = list(theirs.c), list(ours.c)
    # IS NOT NULL would be false of a composite value with a NULL in it.
    there, here = (side[way.key[0]].is_distinct_from(sa.null()) for side in (old, new))
    same = and_(*(old[place] == new[place] for place in way.key))
    unchanged = (
        column.unchanged(a, b)
        for column, a, b in zip(way.columns, old, new, strict=True)
    )
    kind = case((~here, "D"), (there, "U"), else_="I")
    return (
        select(cast(kind, NativeType('"char"')), sa.false(), *old, *new)
        .select_from(theirs.outerjoin(ours, same, full=True))
        # Of two spellings of a key, both name one row; others are equal by now.
        .where(~and_(there, here, *unchanged))
    )
