"""Finds the differences that a merge leaves alone: a user has the row or wants it.

The merge holds back rows that are locked or pending, and then, until no more are
added, rows that the present unique values, foreign keys or children of a held-back
row forbid (docs/explanation/held-back.md). The next refresh reads them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, TableClause, select

from deferred.queues import refresh_coverage
from deferred.queues.queue import Queue, extra_keys
from sites.capture import position
from sites.names import QualifiedName, numbered
from sites.sessions.prepared import Prepared, which
from sites.transfer.types import PgSnapshot
from sites.writing import unique_values
from snapshots.differences.moment import Moment
from snapshots.merging import counts, obstacles, work
from snapshots.merging.counts import Rows
from snapshots.merging.work import Work

#: What holds rows back, as reports name it.
LOCKED, PENDING, REFUSED = "locked", "pending", "refused by the site"
TAKEN = "without their unique value"
_NO_PARENT, _CHILDREN = "without parent in ", "with children in "

#: The same in one word each, which names no table.
WORDS = {
    LOCKED: "locked",
    PENDING: "pending",
    REFUSED: "refused",
    TAKEN: "unique",
    _NO_PARENT: "parent",
    _CHILDREN: "children",
}


class Place(NamedTuple):
    """A moment of the master, and how far it had answered by then, in statements."""

    batch_no: ColumnElement[int]
    order_no: ColumnElement[int]
    position: ColumnElement[str]

    @classmethod
    def of(cls, window: Moment) -> Place:
        """As values of one statement."""
        return cls(*map(sa.literal, given(window).values()))


#: The same for a statement that is built once, and gets the values of `given`.
GIVEN = Place(
    sa.bindparam("its_batch", type_=sa.BigInteger),
    sa.bindparam("its_order", type_=sa.BigInteger),
    sa.bindparam("its_position", type_=sa.Text),
)


def given(window: Moment) -> dict[str, Any]:
    """The values of `GIVEN`."""
    marker = window.marker
    return {
        "its_batch": marker.batch_no,
        "its_order": marker.order_no,
        "its_position": window.position,
    }


def word(by: str) -> str:
    """What holds a row back, in one word that names no table."""
    return next((one for said, one in WORDS.items() if by.startswith(said)), "other")


def hold_locked(connection: Connection, changes: Work) -> int:
    """Lock the rows that will change, in key order; hold back those locked by others.

    Rows that are gone by now are held back too: a user deleted them.
    """
    held = 0
    for kind, weaker in (("D", False), ("U", True)):
        of_kind = changes.table.c.kind == kind
        base = changes.staged.table.sql()
        # Weaker: rows that refer to this one may be added meanwhile.
        missed = _not_locked(changes, base, of_kind, weaker=weaker)
        held += work.hold(connection, changes, sa.and_(of_kind, missed), LOCKED)
    return held + _hold_referred(connection, changes)


def _not_locked(
    changes: Work,
    base: TableClause,
    wanted: ColumnElement[bool],
    *,
    weaker: bool = False,
) -> ColumnElement[bool]:
    """Whether a row cannot be locked, or is gone; the query locks all others.

    Parameters:
        base: the snapshot's table, which `wanted` may be about.
        wanted: which of the free rows are to be locked, in key order.
        weaker: let other sessions add references to them meanwhile.
    """
    locked = (
        select(changes.table.c.no)
        .join_from(changes.table, base, changes.staged.same_row(base))
        .where(wanted, changes.free)
        .order_by(*changes.keys)
        .with_for_update(of=base, skip_locked=True, key_share=weaker)
        .cte("locked")
    )
    return obstacles.among_none(locked, changes)


def _hold_referred(connection: Connection, changes: Work) -> int:
    """Hold back rows that change a unique value while a user refers to them.

    PostgreSQL treats every unique value as one that foreign keys may refer to: changing
    or parking it takes the same lock on the row as a delete.
    """
    base = changes.staged.table.sql()
    moves = [
        unique_values.moved(changes.staged, unique, base, changes.table)
        for unique in changes.staged.breakable(at_once=True)
    ]
    if not moves:
        return 0
    moving = sa.and_(changes.table.c.kind == "U", sa.or_(*moves))
    there = sa.exists().where(changes.staged.same_row(base), moving)
    missed = _not_locked(changes, base, moving)
    return work.hold(connection, changes, sa.and_(there, missed), LOCKED)


def hold_pending(connection: Connection, group: Sequence[Work], window: Moment) -> int:
    """Hold back rows that the site changed and the window does not show yet.

    It runs as statements of their own, once the rows are locked or written: so they see
    all that was committed before that, and no session can add more afterwards. The
    first asks where anything is pending at all, as mostly nothing is.
    """
    asked = tuple(
        (w.member.snapshot.extra_table, w.member.snapshot.identity_columns, w.queue)
        for w in group
    )
    found = _waiting_in(asked).run(connection, **given(window)).scalars()
    pending = [(group[n], is_pending(group[n], window)) for n in found]
    return _hold_in_each(connection, pending, PENDING) if pending else 0


def _hold_in_each(
    connection: Connection,
    conditions: Sequence[tuple[Work, sa.ColumnElement[bool]]],
    by: str,
) -> int:
    """Hold back rows of several snapshots at one moment, each by its own condition."""
    held = [
        work.holding(changes, condition, by).returning(changes.table.c.no).cte(f"h{no}")
        for no, (changes, condition) in enumerate(conditions)
    ]
    each = (select(sa.func.count()).select_from(one).scalar_subquery() for one in held)
    return connection.scalar(select(sum(each, start=sa.literal(0)))) or 0


#: The table of extra keys of a snapshot, the columns of its identity, and its queue.
_Asked = tuple[str, tuple[str, ...], Queue | None]


@lru_cache(maxsize=128)
def _waiting_in(group: tuple[_Asked, ...]) -> Prepared:
    """Asks in which snapshots, by number, anything is pending; takes `GIVEN`.

    Building it takes longer than running it.
    """
    pending = (
        _pending(extra_keys(extra, identity), identity, queue, GIVEN).subquery()
        for extra, identity, queue in group
    )
    return which(rows.select().exists() for rows in pending)


def is_pending(changes: Work, window: Moment) -> ColumnElement[bool]:
    """Whether the site changed a row and the window does not show it yet."""
    snapshot = changes.member.snapshot
    wanted = _pending(
        snapshot.extra(), snapshot.identity_columns, changes.queue, Place.of(window)
    )
    rows = wanted.subquery("pending")
    pairs = zip(changes.keys, snapshot.key_names, strict=True)
    return sa.exists().where(*(key == rows.c[name] for key, name in pairs))


def covered_extras(extra: TableClause, at: Place) -> ColumnElement[bool]:
    """Whether a moment shows the change that an extra key stands for, if any.

    A folded call is shown if the marker has reached it. A synchronous change is
    shown once its transaction at the master is over: the site commits before it.
    """
    answered = sa.or_(
        extra.c.batch_no.is_(None),
        extra.c.batch_no < at.batch_no,
        sa.and_(
            extra.c.batch_no == at.batch_no,
            extra.c.order_no <= at.order_no,
        ),
    )
    here = sa.cast(at.position, PgSnapshot())
    shown = sa.or_(
        extra.c.master_xid.is_(None), position.visible(extra.c.master_xid, here)
    )
    return sa.and_(answered, shown)


def hold_unreferable(connection: Connection, group: Sequence[Work]) -> int:
    """Lock the rows that new references point to; hold back where others hold them.

    If another session deletes such a row, the check of the foreign key would wait.
    """
    by_table = {w.staged.table.qualified: w for w in group}
    held = 0
    for changes in group:
        for link in work.links_up(changes, by_table):
            missed = obstacles.has_locked_parent(link)
            held += work.hold(connection, changes, missed, LOCKED)
    return held


def close(connection: Connection, group: Sequence[Work]) -> counts.Free:
    """Hold back rows that held-back rows forbid, until none is added.

    Returns:
        Those that are still free.
    """
    by_table = {w.staged.table.qualified: w for w in group}
    free = counts.free_rows(connection, group)
    at_work = [w for w in group if free[w.staged.table.qualified]]
    is_closed = True
    while sum(
        _hold_once(connection, w, by_table, free[w.staged.table.qualified])
        for w in at_work
    ):
        is_closed = False
    return free if is_closed else counts.free_rows(connection, group)


def acts_on_children(connection: Connection, group: Sequence[Work]) -> bool:
    """Whether a foreign key may delete or change children when the group is written.

    If so, a child that a user adds meanwhile must be seen before, or must wait:
    otherwise the foreign key would delete or change it.
    """
    by_table = {w.staged.table.qualified: w for w in group}
    acting = [
        link
        for changes in group
        for link in work.links_down(changes, by_table)
        if link.key.acts
    ]
    if not acting:
        return False
    free = counts.free_rows(connection, group)
    return any(
        free[link.parent.staged.table.qualified].keys() & link.unsettling
        for link in acting
    )


def _pending(
    extra: TableClause, identity: Sequence[str], queue: Queue | None, at: Place
) -> sa.Select[Any] | sa.CompoundSelect[Any]:
    """The keys of such rows."""
    wanted = select(*(extra.c[name] for name in numbered("k", identity))).where(
        sa.not_(covered_extras(extra, at))
    )
    if queue is None:
        return wanted
    waiting = refresh_coverage.pending_keys(queue, at.batch_no, at.order_no)
    return sa.union_all(wanted, waiting)


def _hold_once(
    connection: Connection,
    changes: Work,
    by_table: Mapping[QualifiedName, Work],
    kinds: Mapping[str, Rows],
) -> int:
    conditions: list[tuple[ColumnElement[bool], str]] = []
    if kinds.keys() & {"I", "U"}:
        conditions += [
            (obstacles.value_is_taken(changes, unique), TAKEN)
            for unique in changes.staged.breakable(at_once=True)
        ]
        conditions += [
            (obstacles.lacks_parent(link), _NO_PARENT + _name(link.parent))
            for link in work.links_up(changes, by_table)
        ]
    conditions += [
        (obstacles.has_children(link), _CHILDREN + _name(link.child))
        for link in work.links_down(changes, by_table)
        if kinds.keys() & link.unsettling
    ]
    return sum(work.hold(connection, changes, *reason) for reason in conditions)


def _name(changes: Work) -> str:
    return changes.member.snapshot.key
