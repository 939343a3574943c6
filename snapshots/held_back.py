"""Which differences a merge must leave alone, because a user has the row or wants it.

Held back are rows that are locked or pending, and then, until nothing is added,
rows that the present unique values, foreign keys or children of a held-back row
forbid (docs/explanation/held-back.md). The next refresh reads them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    TableClause,
    and_,
    cast,
    exists,
    literal,
    or_,
    select,
)

from deferred.queues import covered, queue
from sites import position, unique_values
from sites.names import QualifiedName
from sites.table import ForeignKey, Unique
from sites.types import PgSnapshot
from snapshots import work
from snapshots.window import Window
from snapshots.work import Work

#: Actions of foreign keys that change rows: cascade, set null, set default.
_ACTING = {"c", "n", "d"}


def hold_locked(connection: Connection, changes: Work) -> int:
    """Lock the rows that will change, in key order; hold back those that others hold.

    Rows that are gone by now are held back too: a user deleted them.
    """
    held = 0
    for kind, weaker in (("D", False), ("U", True)):
        base = changes.staged.table.sql()
        locked = (
            select(changes.table.c.no)
            .join_from(changes.table, base, changes.staged.same_row(base))
            .where(changes.table.c.kind == kind, changes.free)
            .order_by(*changes.keys)
            # Weaker: rows that refer to this one may be added meanwhile.
            .with_for_update(of=base, skip_locked=True, key_share=weaker)
            .cte("locked")
        )
        missed = ~exists().where(locked.c.no == changes.table.c.no)
        held += work.hold(
            connection, changes, and_(changes.table.c.kind == kind, missed)
        )
    return held


def hold_pending(connection: Connection, changes: Work, window: Window) -> int:
    """Hold back rows that the site changed and the window does not show yet.

    A statement of its own: asked once the rows are locked, or written, it sees what was
    committed before that, and nothing can be added behind it.
    """
    held = 0
    for pending in _pending(connection, changes, window):
        rows = pending.subquery("pending")
        same = [
            key == rows.c[name]
            for key, name in zip(
                changes.keys, changes.member.snapshot.key_names, strict=True
            )
        ]
        held += work.hold(connection, changes, exists().where(*same))
    return held


def covered_extras(extra: TableClause, window: Window) -> ColumnElement[bool]:
    """Which extra keys hold no change that the window does not show yet.

    A call that was folded is answered up to the marker. A synchronous change is
    there once its transaction at the master is over: the site commits before it.
    """
    marker, here = window.marker, cast(literal(window.position), PgSnapshot())
    answered = or_(
        extra.c.batch_no.is_(None),
        extra.c.batch_no < marker.batch_no,
        and_(
            extra.c.batch_no == marker.batch_no,
            extra.c.order_no <= marker.order_no,
        ),
    )
    shown = or_(
        extra.c.master_xid.is_(None), position.visible(extra.c.master_xid, here)
    )
    return and_(answered, shown)


def hold_unreferable(connection: Connection, group: Sequence[Work]) -> int:
    """Lock the rows that new references point to; hold back where others hold them.

    Who deletes such a row would make the check of the foreign key wait.
    """
    by_table = {w.staged.table.qualified: w for w in group}
    held = 0
    for changes in group:
        for link in links_up(changes, by_table):
            held += work.hold(connection, changes, _has_locked_parent(link))
    return held


def close(connection: Connection, group: Sequence[Work]) -> int:
    """Hold back, until nothing is added, what held-back rows forbid; says how many."""
    by_table = {w.staged.table.qualified: w for w in group}
    busy = {w.staged.table.qualified: work.counts(connection, w) for w in group}
    at_work = [w for w in group if busy[w.staged.table.qualified]]
    total = 0
    while True:
        added = sum(
            _hold_once(connection, w, by_table, busy[w.staged.table.qualified])
            for w in at_work
        )
        total += added
        if not added:
            return total


def acts_on_children(connection: Connection, group: Sequence[Work]) -> bool:
    """Whether a foreign key may delete or change children when the group is written.

    A child that a user adds meanwhile has to be seen before, or wait: it would go.
    """
    by_table = {w.staged.table.qualified: w for w in group}
    return any(
        work.counts(connection, changes).keys() & _unsettling(link)
        for changes in group
        for link in _links_down(changes, by_table)
        if {link.key.on_delete, link.key.on_update} & _ACTING
    )


def _pending(
    connection: Connection, changes: Work, window: Window
) -> list[sa.Select[Any]]:
    snapshot = changes.member.snapshot
    extra = snapshot.extra()
    queries = [
        select(*(extra.c[name] for name in snapshot.key_names)).where(
            sa.not_(covered_extras(extra, window))
        )
    ]
    calls = queue.find_queue(connection, snapshot.key)
    if calls is not None:
        marker = window.marker
        queries.append(covered.pending_keys(calls, marker.batch_no, marker.order_no))
    return queries


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key between two snapshots of the group."""

    child: Work
    parent: Work
    key: ForeignKey


def _hold_once(
    connection: Connection,
    changes: Work,
    by_table: Mapping[QualifiedName, Work],
    kinds: Mapping[str, int],
) -> int:
    conditions: list[ColumnElement[bool]] = []
    if kinds.keys() & {"I", "U"}:
        conditions += [
            _value_is_taken(changes, unique)
            for unique in unique_values.movable(changes.staged)
        ]
        conditions += [_lacks_parent(link) for link in links_up(changes, by_table)]
    conditions += [
        _has_children(link)
        for link in _links_down(changes, by_table)
        if kinds.keys() & _unsettling(link)
    ]
    return sum(work.hold(connection, changes, condition) for condition in conditions)


def links_up(changes: Work, by_table: Mapping[QualifiedName, Work]) -> list[Link]:
    """The foreign keys of a snapshot to others of the group."""
    return [
        Link(changes, by_table[key.parent], key)
        for key in changes.staged.table.foreign_keys
        if key.parent in by_table
    ]


def _links_down(changes: Work, by_table: Mapping[QualifiedName, Work]) -> list[Link]:
    mine = changes.staged.table.qualified
    return [
        Link(other, changes, key)
        for other in by_table.values()
        for key in other.staged.table.foreign_keys
        if key.parent == mine
    ]


def _unsettling(link: Link) -> set[str]:
    """Kinds of change of a parent that can take away what children refer to."""
    fixed = set(link.key.parent_columns) <= set(link.parent.staged.identity)
    return {"D"} if fixed else {"D", "U"}


def violations(link: Link) -> list[tuple[Work, ColumnElement[bool]]]:
    """Written rows that violate a foreign key: children, or parents that went."""
    child, parent, key = link.child, link.parent, link.key
    there, below = parent.staged.table.sql(), child.staged.table.sql()
    mine = [child.staged.new(name) for name in key.columns]
    orphan = and_(
        child.table.c.kind.in_(("I", "U")),
        *(v.is_not(None) for v in mine),
        ~exists().where(
            *(there.c[p] == v for p, v in zip(key.parent_columns, mine, strict=True))
        ),
    )
    found = [(child, orphan)]
    if set(key.parent_columns) <= set(parent.staged.identity):
        gone = [parent.staged.new(name) for name in key.parent_columns]
        referred = exists().where(
            *(below.c[c] == v for c, v in zip(key.columns, gone, strict=True))
        )
        found.append((parent, and_(parent.table.c.kind == "D", referred)))
    return found


def _value_is_taken(changes: Work, unique: Unique) -> ColumnElement[bool]:
    """Another row has the unique value that this one wants, and keeps it."""
    holder = changes.staged.table.sql().alias("holder")
    giver = changes.table.alias("giver")
    wanted = [unique.same(holder.c[n], changes.staged.new(n)) for n in unique.columns]
    gives = _gives_up(changes, giver, holder, unique.columns)
    return and_(
        changes.table.c.kind.in_(("I", "U")),
        exists().where(
            *wanted, sa.not_(changes.staged.same_row(holder)), ~exists().where(gives)
        ),
    )


def _gives_up(
    changes: Work, giver: FromClause, holder: FromClause, columns: Sequence[str]
) -> ColumnElement[bool]:
    """A free change takes these values away from the row that has them."""
    moved = or_(
        *(changes.staged.new(n, giver).is_distinct_from(holder.c[n]) for n in columns)
    )
    return and_(
        sa.not_(giver.c.held),
        changes.staged.same_row(holder, giver),
        or_(giver.c.kind == "D", and_(giver.c.kind == "U", moved)),
    )


def _lacks_parent(link: Link) -> ColumnElement[bool]:
    """The row refers to one that will not be there."""
    changes, parent, key = link.child, link.parent, link.key
    mine = [changes.staged.new(name) for name in key.columns]
    present = parent.staged.table.sql().alias("present")
    leaving, coming = parent.table.alias("leaving"), parent.table.alias("coming")
    stays = exists().where(
        *(present.c[p] == v for p, v in zip(key.parent_columns, mine, strict=True)),
        ~exists().where(_gives_up(parent, leaving, present, key.parent_columns)),
    )
    comes = exists().where(
        sa.not_(coming.c.held),
        coming.c.kind.in_(("I", "U")),
        *(
            parent.staged.new(p, coming) == v
            for p, v in zip(key.parent_columns, mine, strict=True)
        ),
    )
    return and_(
        changes.table.c.kind.in_(("I", "U")),
        *(v.is_not(None) for v in mine),
        sa.not_(stays),
        sa.not_(comes),
    )


def _has_locked_parent(link: Link) -> ColumnElement[bool]:
    """The row begins to refer to one that is there, and that another has locked."""
    changes, key = link.child, link.key
    parent = link.parent.staged.table.sql().alias("parent")
    row = changes.staged.table.sql().alias("row")
    refers = [
        parent.c[p] == changes.staged.new(c)
        for p, c in zip(key.parent_columns, key.columns, strict=True)
    ]
    same = [row.c[c] == changes.staged.new(c) for c in key.columns]
    unchanged = exists().where(changes.staged.same_row(row), *same)
    begins = and_(
        changes.free, changes.table.c.kind.in_(("I", "U")), sa.not_(unchanged)
    )
    locked = (
        select(changes.table.c.no)
        .join_from(changes.table, parent, and_(*refers))
        .where(begins)
        .order_by(*(parent.c[p] for p in key.parent_columns))
        .with_for_update(of=parent, read=True, key_share=True, skip_locked=True)
        .cte("locked")
    )
    return and_(
        changes.table.c.kind.in_(("I", "U")),
        sa.not_(unchanged),
        exists().where(*refers),
        ~exists().where(locked.c.no == changes.table.c.no),
    )


def _has_children(link: Link) -> ColumnElement[bool]:
    """The row goes, or changes what others refer to, and one of them stays."""
    changes, child, key = link.parent, link.child, link.key
    row = changes.staged.table.sql().alias("row")
    below = child.staged.table.sql().alias("below")
    leaving = child.table.alias("leaving")
    moved = or_(
        *(
            changes.staged.new(name).is_distinct_from(row.c[name])
            for name in key.parent_columns
        )
    )
    stays = exists().where(
        *(
            below.c[c] == row.c[p]
            for c, p in zip(key.columns, key.parent_columns, strict=True)
        ),
        ~exists().where(_gives_up(child, leaving, below, key.columns)),
    )
    return and_(
        changes.table.c.kind.in_(("D", "U")),
        exists().where(
            changes.staged.same_row(row), or_(changes.table.c.kind == "D", moved), stays
        ),
    )
