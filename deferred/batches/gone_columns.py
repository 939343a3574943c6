"""Shipping changes of columns that the destination has dropped, or computes now.

A change that leaves such a column alone goes without it. A transaction with one that
gives it a value is parked: its values of the column are kept in a table of the session,
as JSON, until it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import array

from deferred.batches import work
from deferred.batches.batch import Batch, touching
from deferred.errors import GivesGoneColumn
from deferred.queues import given_values
from deferred.queues.queue import Queue
from sites.names import QualifiedName
from sites.tables.table import find_table
from sites.transfer import encodings
from sites.writing.misfits import SHOWN
from sites.writing.staged import Staged

_CREATE = """CREATE TEMP TABLE IF NOT EXISTS snaptide_gone (call_no bigint, place int,
    name text, old json, new json, given boolean)"""
_EMPTY = "DELETE FROM pg_temp.snaptide_gone"
_KEEP = """
INSERT INTO pg_temp.snaptide_gone
SELECT u.call_no, g.place, g.name, g.old, g.new, g.given
FROM pg_temp.snaptide_unread u,
  ROWS FROM (json_to_recordset(u.gone) AS (name text, old json, new json,
                                           given boolean))
  WITH ORDINALITY AS g(name, old, new, given, place)
"""
_FIRST = sa.text(
    "SELECT call_no, name, CAST(new AS text) AS new FROM pg_temp.snaptide_gone"
    " WHERE given ORDER BY call_no, place LIMIT 1"
)
_COMPLETE = """
UPDATE snaptide.error_call c
SET old_values = CASE WHEN old_values IS NOT NULL THEN ({old}) END,
    new_values = CASE WHEN new_values IS NOT NULL THEN ({new}) END,
    conflict = COALESCE(conflict, (
        SELECT 'column gone: ' || string_agg(g.name, ', ' ORDER BY g.place)
        FROM pg_temp.snaptide_gone g WHERE g.call_no = c.call_no AND g.given))
WHERE error_id = :error_id AND call_no IN (SELECT call_no FROM pg_temp.snaptide_gone)
"""
_WITH_THEM = """
SELECT json_object_agg(e.key, e.value ORDER BY e.part, e.place)
FROM (SELECT 1 AS part, key, value, place
      FROM json_each(c.{0}_values) WITH ORDINALITY j(key, value, place)
      UNION ALL
      SELECT 2, g.name, COALESCE(g.{0}, 'null'), g.place
      FROM pg_temp.snaptide_gone g
      WHERE g.call_no = c.call_no
        AND (g.given OR '{0}' = 'old' OR c.kind NOT IN ('I', 'R'))) e
"""


_TODO = (
    "Retry without it (--without-gone), or by number once a column of that name is "
    "there again, or delete the transaction."
)


@dataclass(frozen=True, slots=True)
class Gone:
    """Columns of a queue that its destination has dropped, or computes."""

    queue: Queue
    #: by name, the value that an insert at the site takes if it gives none, as text
    defaults: Mapping[str, ColumnElement[Any]]

    def columns(self) -> Mapping[str, tuple[int, str | None]]:
        """By name, their former numbers at the destination, and the types here."""
        numbers, types = self.queue.target_numbers or (), self.queue.types
        return {
            name: (number, type_)
            for name, number, type_ in zip(
                self.queue.columns, numbers, types, strict=True
            )
            if name in self.defaults
        }

    def giving(self, origin: Connection, batch: Batch) -> set[int]:
        """The transactions of a batch that give one a value, by order number."""
        calls = self.queue.sql()
        gives = (
            given_values.by_call(self.queue, calls, *one)
            for one in self.defaults.items()
        )
        return touching(origin, batch, calls, sa.or_(*gives))

    def values(self, changes: sa.FromClause) -> ColumnElement[Any]:
        """Their values in a net change, as `stage` reads them."""
        each = []
        for name, default in self.defaults.items():
            old, new = (
                given_values.text_of(self.queue, changes, side, name) for side in "on"
            )
            given = given_values.by_net_change(self.queue, changes, name, default)
            parts = "name", name, "old", old, "new", new, "given", given
            each.append(func.json_build_object(*parts))
        # No call, because functions take 100 arguments at most.
        return func.array_to_json(array(each))


def found(origin: Connection, queue: Queue, gone: Sequence[str]) -> Gone:
    """The columns of a queue of which its destination takes no values any more.

    Parameters:
        queue: by the names that its columns have now.
        gone: those of its columns that the destination lacks or computes.
    """
    return Gone(queue=queue, defaults=given_values.defaults(origin, queue, gone))


def without(
    changes: sa.Select[Any], queue: Queue, staged: Staged, gone: Gone | None = None
) -> sa.Select[Any]:
    """Net changes of a queue with the columns that the destination has.

    Parameters:
        gone: append their values.
    """
    source = changes.subquery()
    images = [
        source.c[f"{side}{queue.columns.index(name) + 1}"].label(f"{side}{n}")
        for side in "on"
        for n, name in enumerate(staged.columns, 1)
    ]
    fixed = [source.c[n] for n in ("unit", "tran", "several", "call_no", "kind")]
    more = [] if gone is None else [gone.values(source).label("gone")]
    return select(*fixed, *images, *more)


def begin(target: Connection) -> None:
    """Create the table for values of columns that are gone, or empty it."""
    for statement in (_CREATE, _EMPTY):
        target.execute(sa.text(statement))


def readable(values: str | None, codec: str) -> str | None:
    """Values that the destination can read, as `encodings.stored`.

    It had columns of these names, so it can read those.
    """
    if values is None:
        return None
    each = json.loads(values)
    return json.dumps(
        [{**encodings.stored(one, codec), "name": one["name"]} for one in each]
    )


def keep(target: Connection) -> None:
    """Keep the values of the changes that were read last."""
    target.execute(sa.text(_KEEP))


def reason(
    target: Connection, staged: Sequence[Staged], not_lifted: str = ""
) -> GivesGoneColumn | None:
    """Why the staged transaction cannot be applied; None if it gives them no value.

    Parameters:
        staged: the work tables with its changes.
        not_lifted: why a lens does not give the values to other columns.
    """
    row = target.execute(_FIRST).one_or_none()
    if row is None:
        return None
    table = work.table_of(target, staged, row.call_no)
    told = gives(target, table, row.name, row.call_no, _shown(row.new))
    if not_lifted:
        told += f" Its lens cannot lift that: {not_lifted}."
    return GivesGoneColumn(f"{told} {_TODO}")


def gives(
    connection: Connection,
    table: QualifiedName,
    name: str,
    call_no: int,
    value: str = "a value",
) -> str:
    """Say which call gives a value to a column that takes none any more."""
    there = find_table(connection, table)
    computed = there is not None and any(
        column.name == name and column.generated for column in there.columns
    )
    what = "is generated now" if computed else "is gone"
    return f"Column {name} of {table} {what}, and call {call_no} gives it {value}."


def _shown(value: str | None) -> str:
    text = encodings.read(json.loads(value or "null"))
    if text is None:
        return "NULL"
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def complete(target: Connection, error_id: int) -> None:
    """Complete a parked transaction's images with the values that were kept.

    An insert that gives a column none has no value of it, so that it takes the default
    of a column that is added in its place.
    """
    parts = {side: _WITH_THEM.format(side) for side in ("old", "new")}
    target.execute(sa.text(_COMPLETE.format(**parts)), {"error_id": error_id})
