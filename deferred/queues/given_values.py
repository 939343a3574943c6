"""Whether calls give columns values: not by leaving them, or inserting a default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, and_, cast, func

from deferred.queues.queue import Queue
from deferred.queues.target_columns import captured_columns
from sites.tables import columns as tables_columns


def defaults(
    connection: Connection, queue: Queue, names: Iterable[str]
) -> dict[str, ColumnElement[Any]]:
    """By column, the value that an insert at the site takes if it gives none, as text.

    Parameters:
        names: columns of the queue.
    """
    base, called = captured_columns(connection, queue)
    found: dict[str, ColumnElement[Any]] = {}
    for name in names:
        column = base.column(called[name])
        found[name] = cast(sa.null(), Text)
        if column.default and tables_columns.is_immutable(connection, column.default):
            value: ColumnElement[Any] = sa.literal_column(f"({column.default})")
            found[name] = cast(cast(value, column.sql_type), Text)
    return found


def by_call(
    queue: Queue, calls: sa.FromClause, name: str, default: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Whether a call of a queue inserts a value of a column, or changes it.

    Parameters:
        default: as `defaults` has it.
    """
    kind = func.upper(cast(calls.c.kind, Text))
    # Half of a change of key is no insert.
    inserts = and_(kind == "I", sa.not_(calls.c.moved))
    return _given(
        queue, calls, name, kind, and_(inserts, _takes(queue, calls, name, default))
    )


def by_net_change(
    queue: Queue, changes: sa.FromClause, name: str, default: ColumnElement[Any]
) -> ColumnElement[bool]:
    """The same of a net change, as `net_change.net_changes` has it."""
    inserts = changes.c.kind.in_(("I", "R"))
    taken = and_(inserts, _takes(queue, changes, name, default))
    return _given(queue, changes, name, changes.c.kind, taken)


def text_of(
    queue: Queue, images: sa.FromClause, side: str, name: str
) -> ColumnElement[Any]:
    """A column's old (`o`) or new (`n`) value as text."""
    return cast(images.c[f"{side}{queue.columns.index(name) + 1}"], Text)


def _takes(
    queue: Queue, images: sa.FromClause, name: str, default: ColumnElement[Any]
) -> ColumnElement[bool]:
    return text_of(queue, images, "n", name).is_not_distinct_from(default)


def _given(
    queue: Queue,
    images: sa.FromClause,
    name: str,
    kind: ColumnElement[str],
    taken: ColumnElement[bool],
) -> ColumnElement[bool]:
    old, new = (text_of(queue, images, side, name) for side in ("o", "n"))
    return and_(kind.not_in(("D", "N")), old.is_distinct_from(new), sa.not_(taken))
