"""Taking a transaction only once if it may come to a master by two ways.

A site that is switched to another master brings transactions there that its former
master may have sent on already, or sends on when it is back. And a restored master gets
transactions again that it had sent on before, and sends them on again. Each master of
the group remembers which of these have come, from any sender: it takes the first
arrival and leaves out the second (docs/explanation/switching.md).

They are known by the numbers that they got where they were made, never by a clock.
Each pusher tells its destination what to watch for, before the first transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, cast, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from deferred.batches import marker
from deferred.batches.batch import Batch, within
from deferred.batches.ledger import original
from deferred.catalog import (
    deferred_transaction,
    delivery,
    destination,
    duplicate_watch,
    ledger_horizon,
    push_batch,
    push_marker,
)
from groups.catalog import applied_transaction, arrival
from groups.relay.ledger import EACH, HAS_COME, MADE_AT, NOTED
from sites.capture.position import STRETCH
from sites.sessions import identity
from sites.sessions.prepared import Prepared, as_json
from sites.sessions.site import autocommit


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateWatch:
    """A range of a site's transactions that may come by two ways."""

    group_id: uuid.UUID
    origin: str
    #: their numbers where they were made: from the first up to before the end
    first_no: int
    end_no: int
    #: all transactions that it sent to its former master were of this group
    alone: bool
    #: all its transactions of this group went to that master
    whole: bool

    def is_in(self, known: Mapping[tuple[uuid.UUID, str], DuplicateWatch]) -> bool:
        """Whether a known entry already includes it, with all its transactions."""
        other = known.get((self.group_id, self.origin))
        return (
            other is not None
            and other.first_no <= self.first_no
            and other.end_no >= self.end_no
            and other.alone <= self.alone
            and other.whole <= self.whole
        )


def list_watches(connection: Connection) -> list[DuplicateWatch]:
    """The transactions that this site watches for."""
    return [DuplicateWatch(**row._mapping) for row in _WATCHES.run(connection)]


def of(found: Sequence[Mapping[str, Any]] | None) -> list[DuplicateWatch]:
    """The same from the column `WATCHES` of a row."""
    return [
        DuplicateWatch(**{**row, "group_id": uuid.UUID(row["group_id"])})
        for row in found or ()
    ]


_LISTED = select(
    *(duplicate_watch.c[name] for name in DuplicateWatch.__slots__)
).order_by("group_id", "origin")
_WATCHES = Prepared(_LISTED)

#: The transactions that a site watches for, for statements that read more.
WATCHES = as_json(_LISTED, "watches")


def note(connection: Connection, watch: DuplicateWatch) -> None:
    """Store a watch, or widen the one that is stored."""
    values = {name: getattr(watch, name) for name in DuplicateWatch.__slots__}
    new = insert(duplicate_watch).values(values)
    then = duplicate_watch.c
    connection.execute(
        new.on_conflict_do_update(
            index_elements=[then.group_id, then.origin],
            set_={
                "first_no": func.least(then.first_no, new.excluded.first_no),
                "end_no": func.greatest(then.end_no, new.excluded.end_no),
                "alone": and_(then.alone, new.excluded.alone),
                "whole": and_(then.whole, new.excluded.whole),
            },
        )
    )


def watch_for(connection: Connection, watches: Sequence[DuplicateWatch]) -> None:
    """Make a master watch for these transactions; commits.

    It looks up which of them have come already; meanwhile all markers are locked, so
    that no push can bring any.
    """
    with connection.begin():
        here = {(one.group_id, one.origin): one for one in list_watches(connection)}
    missing = [watch for watch in watches if not watch.is_in(here)]
    if not missing:
        return
    with connection.begin():
        marker.block_new_markers(connection)
        for sender in _senders(connection):
            marker.request_exclusive(connection, sender)
        locked = select(push_marker.c.origin_id).order_by("origin_id")
        connection.execute(locked.with_for_update())
        for watch in missing:
            note(connection, watch)
        asked = {(watch.group_id, watch.origin) for watch in missing}
        for watch in list_watches(connection):
            if (watch.group_id, watch.origin) in asked:
                connection.execute(_already_here(watch))
                connection.execute(_set_known_from(watch))
        more = push_marker.c.watched + 1
        connection.execute(sa.update(push_marker).values(watched=more))


def is_in(origin: Connection, target: Connection, batch: Batch, sender: str) -> bool:
    """Whether a batch has transactions that its destination watches for."""
    made = deferred_transaction.c
    began = func.coalesce(made.origin, sender)
    number = original(func.coalesce(made.origin_transaction, cast(made.xid, sa.Text)))
    found = [
        and_(began == watch.origin, number >= watch.first_no, number < watch.end_no)
        for watch in list_watches(target)
    ]
    wanted = (
        select(delivery.c.xid)
        .join(deferred_transaction, made.xid == delivery.c.xid)
        .where(within(batch, -1, batch.end), sa.or_(sa.false(), *found))
    )
    return bool(origin.scalar(select(wanted.exists())))


def taken(watch: DuplicateWatch) -> sa.Select[tuple[int, datetime, str]]:
    """The watched transactions that have certainly come to a master.

    Their numbers, when they were made, and the table whose changes have come; '' means
    all tables of the group.
    """
    row = applied_transaction.c
    return select(row.transaction, row.made_at, row.target).where(
        row.group_id == watch.group_id,
        row.origin == watch.origin,
        row.part == "",
        row.certain,
    )


def of_restored(
    target: Connection, sender_id: uuid.UUID, sender: str, batch_no: int
) -> list[DuplicateWatch]:
    """Transactions that a restored sender may send on again, by a destination's ledger.

    The sender's own changes after the restore point are lost. Transactions that others
    had brought to it, they bring again.

    Parameters:
        batch_no: the last batch that the sender remembers.
    """
    groups = select(arrival.c.group_id).where(arrival.c.sender == sender)
    found = (
        select(
            EACH.c.origin, func.min(EACH.c.transaction), func.max(EACH.c.transaction)
        )
        .select_from(NOTED)
        .where(
            push_batch.c.origin_id == sender_id,
            push_batch.c.number > batch_no,
            EACH.c.origin.is_not(None),
            EACH.c.transaction.is_not(None),
        )
        .group_by(EACH.c.origin)
    )
    lost = target.execute(found).all()
    return [
        DuplicateWatch(
            group_id=group,
            origin=origin,
            first_no=first,
            end_no=last + 1,
            alone=False,
            whole=False,
        )
        for group in target.scalars(groups.distinct()).all()
        for origin, first, last in lost
    ]


def watch_restored(
    origin: Connection, target: Connection, sender_id: uuid.UUID, name: str
) -> None:
    """Make a destination watch for what a restored origin may send on again.

    Parameters:
        name: the destination.
    """
    remembered = select(destination.c.batch_no).where(destination.c.name == name)
    with autocommit(origin):
        batch_no = origin.scalar(remembered)
        me = identity.read(origin).name
    with autocommit(target):
        watches = of_restored(target, sender_id, me, batch_no or 0)
    watch_for(target, watches)


def forget(connection: Connection, group: uuid.UUID) -> None:
    """Stop watching for transactions of a group that this site leaves."""
    for table in (duplicate_watch, applied_transaction):
        mine = table.c.group_id == group
        connection.execute(sa.delete(table).where(mine))
    left = select(duplicate_watch.c.origin).exists()
    connection.execute(sa.update(push_marker).where(sa.not_(left)).values(watched=0))


def _senders(connection: Connection) -> list[uuid.UUID]:
    found = connection.scalars(select(push_marker.c.origin_id).order_by("origin_id"))
    return list(found)


def _already_here(watch: DuplicateWatch) -> sa.Insert:
    """Remember the transactions that batches have brought here until now.

    A batch does not say what a transaction changed. Its arrival is certain if all that
    its sender brings is of one group, and the origin's changes of the group go one way.
    The row also names a sender that only sends on, and brings one group from one source
    only: a repeat from that sender is then certain.
    """
    brought = arrival.c.sender == push_marker.c.origin
    one_group, one_source = (
        select(func.count(of.distinct()) == 1).where(brought).scalar_subquery()
        for of in (arrival.c.group_id, arrival.c.source)
    )
    direct = EACH.c.origin.is_(None)
    certain = and_(
        literal(watch.whole), sa.case((direct, literal(watch.alone)), else_=one_group)
    )
    again = and_(sa.not_(direct), one_group, one_source)
    found = (
        select(
            literal(watch.group_id, sa.Uuid),
            literal(watch.origin),
            EACH.c.transaction,
            MADE_AT,
            literal(""),
            literal(""),
            func.bool_or(certain),
            func.min(sa.case((again, push_marker.c.origin))),
        )
        .select_from(NOTED)
        .where(
            HAS_COME,
            func.coalesce(EACH.c.origin, push_marker.c.origin) == watch.origin,
            EACH.c.transaction >= watch.first_no,
            EACH.c.transaction < watch.end_no,
        )
        .group_by(EACH.c.transaction, MADE_AT)
    )
    columns = [column.name for column in applied_transaction.columns]
    return (
        insert(applied_transaction).from_select(columns, found).on_conflict_do_nothing()
    )


def _set_known_from(watch: DuplicateWatch) -> sa.Update:
    """Note the first transaction from which arrivals in batches are known here.

    It lies after all transactions of purged batches. None is known while a kept batch
    is so old that its transactions were not noted.
    """
    unknown = select(push_batch.c.number).where(push_batch.c.transactions.is_(None))
    forgotten = (
        select(ledger_horizon.c.transaction + 1)
        .where(ledger_horizon.c.origin == watch.origin)
        .scalar_subquery()
    )
    known = sa.case(
        (unknown.exists(), literal(STRETCH, sa.BigInteger)),
        else_=func.coalesce(forgotten, 0),
    )
    return sa.update(duplicate_watch).where(_is(watch)).values(known_from=known)


def _is(watch: DuplicateWatch) -> ColumnElement[bool]:
    return and_(
        duplicate_watch.c.group_id == watch.group_id,
        duplicate_watch.c.origin == watch.origin,
    )
