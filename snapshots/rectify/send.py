"""Queues calls that give the master the rows of a site.

The old values of a call are the row that the master has at the moment that is held; the
new values are the site's row, locked until the calls are committed. So what users of
the site change later is queued later, and what users of the master change meanwhile is
a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, TableClause, and_, case, cast, or_, select

from deferred.queues import on_behalf, queue, refresh_coverage
from deferred.queues.queue import Queue
from deferred.queues.target_columns import captured_columns
from sites.names import numbered
from sites.tables import ddl
from sites.tables.analyze import analyze
from sites.tables.ddl import NewColumn
from sites.tables.table import Column, Table
from sites.transfer import transport
from sites.transfer.types import NativeType
from snapshots.check.moments import Moments
from snapshots.check.reasons import RECTIFY
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences import images
from snapshots.differences.window import Member
from snapshots.keys import Keys, as_rows, chunks
from snapshots.rectify.errors import CannotSend

#: Fewer rows than this travel as values of a statement.
_FEW = 100

#: Work tables of this size are worth an index and statistics.
_LARGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The rows to be sent, with the master's, in two temporary tables."""

    member: Member
    calls: Queue
    #: the base table, and its columns in the order of the queue's
    base: Table
    columns: tuple[Column, ...]
    #: `no`, `here` (the site has the row, and it is locked), `held`, k1, k2, ...
    wanted: TableClause
    #: o1, o2, ...
    theirs: TableClause

    @property
    def old(self) -> list[sa.ColumnElement[Any]]:
        """The columns of the master's row, in the order of the queue's."""
        return [self.theirs.c[name] for name in numbered("o", self.columns)]

    def same(
        self, table: sa.FromClause, keys: list[str] | tuple[str, ...]
    ) -> sa.ColumnElement[bool]:
        """Whether a row of a table is the wanted one.

        Parameters:
            keys: the columns of the table that identify it.
        """
        names = self.member.snapshot.key_names
        pairs = zip(keys, names, strict=True)
        return and_(*(table.c[column] == self.wanted.c[k] for column, k in pairs))


def queue_of(connection: Connection, snapshot: Snapshot) -> Queue:
    """The queue by which rows of a snapshot reach its master.

    Raises:
        CannotSend: the snapshot is read-only, or propagated synchronously.
    """
    found = queue.find_queue(connection, snapshot.key)
    if found is None:
        raise CannotSend(
            f"Snapshot {snapshot.key} is read-only: the master takes no row of it.",
            snapshot=snapshot.key,
        )
    if found.synchronous:
        raise CannotSend(
            f"Snapshot {snapshot.key} is propagated synchronously: it has no queue "
            "that could take its rows to the master.",
            snapshot=snapshot.key,
        )
    return found


def send(
    connection: Connection, held: Moments, member: Member, wanted: Keys, number: int
) -> int:
    """Queue a call for each of these rows, unless a user has it.

    The caller keeps refreshes out. Locks the rows at the site; writes the queue and
    deferred_transaction; commits nothing.

    Parameters:
        held: rows of the snapshot at the master, as the calls begin with them.
        wanted: keys of rows that differ without a reason at these moments.
        number: names the temporary tables of this transaction.

    Returns:
        How many calls were queued.

    Raises:
        CannotSend: the snapshot is read-only, or propagated synchronously.
    """
    rows = _stage(connection, held, member, wanted, number)
    _lock(connection, rows)
    _hold(connection, rows)
    return on_behalf.queue_calls(connection, rows.calls, RECTIFY, _calls(rows))


def _stage(
    connection: Connection, held: Moments, member: Member, wanted: Keys, number: int
) -> _Rows:
    rows = _tables(connection, member, number)
    keys = member.snapshot.key_names
    kinds = member.key_types(rows.base)
    for some in chunks(wanted):
        # One row may be there in two spellings of its key.
        given = select(*as_rows(some, kinds).c).distinct()
        connection.execute(sa.insert(rows.wanted).from_select(keys, given))
        transport.copy(
            held.sides.master.at,
            _at_master(member, rows.calls, some),
            connection,
            rows.theirs,
            [column.name for column in rows.theirs.c],
            few=_FEW,
        )
    if wanted.num_rows >= _LARGE:
        ddl.index_temporary(connection, rows.wanted.name, "no")
        analyze(connection, rows.wanted)
        analyze(connection, rows.theirs)
    return rows


def _tables(connection: Connection, member: Member, number: int) -> _Rows:
    """The empty tables for the rows of a snapshot."""
    calls = queue_of(connection, member.snapshot)
    base, called = captured_columns(connection, calls)
    columns = tuple(base.column(called[name]) for name in calls.columns)
    identity = member.snapshot.identity_columns
    collations = [base.column(name).collation for name in identity]
    keys = member.snapshot.key_names
    typed = zip(keys, member.key_types(base), collations, strict=True)
    wanted = [
        NewColumn(name="no", type="bigint GENERATED ALWAYS AS IDENTITY"),
        NewColumn(name="here", type="boolean", default="false"),
        NewColumn(name="held", type="boolean", default="false"),
        *(NewColumn(name=k, type=t.name, collation=c) for k, t, c in typed),
    ]
    theirs = [
        NewColumn(name=o, type=c.staged_type.name, collation=c.collation)
        for o, c in zip(numbered("o", columns), columns, strict=True)
    ]
    return _Rows(
        member=member,
        calls=calls,
        base=base,
        columns=columns,
        wanted=ddl.create_temporary(connection, f"snaptide_rectify_{number}", wanted),
        theirs=ddl.create_temporary(
            connection, f"snaptide_rectify_master_{number}", theirs
        ),
    )


def _at_master(member: Member, calls: Queue, wanted: Keys) -> sa.Select[Any]:
    """The rows of the master table with these keys, also outside the subset."""
    table, identity = member.master.sql(), member.snapshot.identity_columns
    keys = select(*as_rows(wanted, member.key_types(member.master)).c).distinct()
    given = keys.subquery("wanted")
    same = [table.c[name] == key for name, key in zip(identity, given.c, strict=True)]
    values = images.at_master_now(member, table)
    return select(*(values[name] for name in calls.columns)).join_from(
        table, given, and_(*same)
    )


def _lock(connection: Connection, rows: _Rows) -> None:
    """Lock the rows that the site has, but for those that other sessions have locked.

    Rows that refer to them may be added meanwhile.
    """
    base, identity = rows.base.sql(), rows.member.snapshot.identity_columns
    locked = (
        select(rows.wanted.c.no)
        .join_from(rows.wanted, base, rows.same(base, identity))
        .order_by(*(rows.wanted.c[k] for k in rows.member.snapshot.key_names))
        .with_for_update(of=base, skip_locked=True, key_share=True)
        .cte("locked")
    )
    statement = sa.update(rows.wanted).where(rows.wanted.c.no == locked.c.no)
    connection.execute(statement.values(here=True))


def _hold(connection: Connection, rows: _Rows) -> None:
    """Leave rows alone that users have locked, or changed since they were compared.

    The second runs as a statement of its own, once the rows are locked: so it sees all
    that was committed before that, and what comes later is queued after these calls.
    """
    base, identity = rows.base.sql(), rows.member.snapshot.identity_columns
    changed = refresh_coverage.uncovered_keys(rows.calls).subquery("changed")
    names = rows.member.snapshot.key_names
    for condition in (
        and_(~rows.wanted.c.here, sa.exists().where(rows.same(base, identity))),
        sa.exists().where(rows.same(changed, names)),
    ):
        connection.execute(sa.update(rows.wanted).where(condition).values(held=True))


def _calls(rows: _Rows) -> sa.Select[Any]:
    """The calls that give the master the site's rows, as `queue_calls` takes them."""
    base, identity = rows.base.sql(), rows.member.snapshot.identity_columns
    key = [rows.calls.columns.index(name) for name in rows.calls.identity_columns]
    old, new = rows.old, [base.c[column.name] for column in rows.columns]
    # IS NOT NULL would be false of a composite value with a NULL in it.
    there, here = old[key[0]].is_distinct_from(sa.null()), rows.wanted.c.here
    places = [f"o{place + 1}" for place in key]
    unchanged = (
        column.unchanged(a, b)
        for column, a, b in zip(rows.columns, old, new, strict=True)
    )
    kind = case((~here, "D"), (there, "U"), else_="I")
    source = rows.wanted.outerjoin(
        rows.theirs, rows.same(rows.theirs, places)
    ).outerjoin(base, and_(here, rows.same(base, identity)))
    return (
        select(cast(kind, NativeType('"char"')), sa.false(), *old, *new)
        .select_from(source)
        .where(
            ~rows.wanted.c.held,
            or_(there, here),
            # Of two spellings of a key, one may be left; such rows are equal by now.
            ~and_(there, here, *unchanged),
        )
        .order_by(rows.wanted.c.no)
    )
