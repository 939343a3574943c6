"""Applies one call at its master by one statement, if nothing is in conflict.

The statement is the one that `sites.writing.write` builds for every apply, with the
call as its only row, and more conditions: the master's row equals the call's old image,
value for value, nothing of the site is parked there, and the table is still as it was
described: columns, unique values, rules, foreign keys. Then no column group differs, so
that no rule is asked, the call depends on no parked transaction, and the way over work
tables would write the same. If the statement finds no row, that way is taken.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from deferred.batches import lost_rows
from deferred.queues.queue import Queue
from sites.names import numbered
from sites.tables import table_state
from sites.tables.table import ForeignKey, Table
from sites.transfer.types import NativeType
from sites.transfer.values import from_text
from sites.writing import write
from sites.writing.staged import Staged, described_columns, moved_columns
from synchronous.prepared import Bound, Template

#: Values as text, in the order of the queue's columns.
Image = Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement that applies any call of one kind and table."""

    template: Template
    #: the parameters for the old image, and then the new one
    names: tuple[str, ...]
    #: positions of columns; a call that changes one of them goes over work tables
    unique: tuple[int, ...]
    #: foreign keys of the master table
    keys: tuple[ForeignKey, ...]

    def fits(self, old: Image, new: Image) -> bool:
        """Whether no unique value changes, which could be a conflict for rules."""
        return all(old[at] == new[at] for at in self.unique)

    def bind(self, old: Image, new: Image) -> Bound:
        """The statement for a call."""
        values = zip(self.names, (*old, *new), strict=True)
        return self.template.bind(dict(values))


def build(
    queue: Queue, table: Table, kind: str, site_id: uuid.UUID, state: str
) -> Statement | None:
    """The statement for a kind of call; None if there is none.

    Parameters:
        site_id: of the site that makes the calls.
        table: the master table, as it is now.
        kind: I, U or D.
        state: of that table, see `sites.tables.table_state`.
    """
    if not set(queue.columns) <= set(table.names):
        return None
    staged = _staged(queue, table, kind, site_id, state)
    statement: Any
    if kind == "I":
        if any(unique.deferrable for unique in table.uniques):
            return None
        statement = write.insert(staged, {}, "I", skip_existing=True)
    elif kind == "U":
        statement = _where_same(write.update(staged, {}, "U"), staged)
    else:
        statement = _where_same(write.delete(staged, {}, "D"), staged)
    # The caller needs the transaction's id, and is saved a question.
    xid = sa.cast(sa.func.pg_current_xact_id(), sa.Text)
    return Statement(
        template=Template.of(statement.returning(xid)),
        names=tuple(n for side in "on" for n in numbered(side, queue.columns)),
        unique=_unique(queue, table) if kind == "U" else (),
        keys=table.foreign_keys,
    )


def _where_same(statement: Any, staged: Staged) -> Any:
    """Only if the row equals the call's old image, as detection compares them."""
    return statement.where(
        *(
            staged.table.column(name).same_as(staged.old(name), statement.table.c[name])
            for name in staged.columns
        )
    )


def _staged(
    queue: Queue, table: Table, kind: str, site_id: uuid.UUID, state: str
) -> Staged:
    """The parameters of a statement as a work table of one row, or of none."""
    values = [
        from_text(
            sa.bindparam(name, None, type_=NativeType("text")),
            table.column(column).recorded,
        ).label(name)
        for side in ("o", "n")
        for name, column in zip(
            numbered(side, queue.columns), queue.columns, strict=True
        )
    ]
    origin = sa.cast(sa.literal_column(f"'{site_id}'"), sa.Uuid)
    held = lost_rows.held(origin)
    call = sa.select(sa.literal(kind).label("kind"), *values).where(sa.not_(held))
    staged = Staged(
        table=table,
        source=call.subquery("call"),  # type: ignore[arg-type]
        columns=queue.columns,
        identity=queue.identity_columns,
    )
    # Users' sessions may print types with another schema.
    described = described_columns([staged], with_types=False)
    # PostgreSQL's caches know of new names also if the transaction's snapshot does not.
    moved = sa.func.cardinality(moved_columns(described))
    unaltered = table_state.state(table.oid) == sa.literal(state, sa.Text)
    same = (moved == sa.literal_column("0"), unaltered)
    return replace(staged, source=call.where(*same).subquery("call"))  # type: ignore[arg-type]


def _unique(queue: Queue, table: Table) -> tuple[int, ...]:
    columns = {name for unique in table.uniques for name in unique.columns}
    return tuple(at for at, name in enumerate(queue.columns) if name in columns)
