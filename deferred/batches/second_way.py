"""Transactions that may come to a master by two ways, and are taken once.

A site that is switched to another master brings there what its former master may have
sent on already, or will when it is back. Each master of the group remembers which
transactions of that time have come, whoever brought them: the first is taken, the
second is left out (docs/explanation/switching.md).

Masters hear of it from who pushes to them, before they get the first transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, cast, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from deferred.batches import ledger, marker
from deferred.batches.batch import Batch, within
from deferred.batches.marker import Marker
from deferred.catalog import (
    arrival,
    deferred_transaction,
    delivery,
    push_batch,
    push_marker,
    second_way,
    taken_transaction,
)
from sites.prepared import planned_once
from sites.site import each_by_itself


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondWay:
    """A site whose transactions of a while may come by two ways."""

    replication_group: str
    origin: str
    #: when the transactions were made, by the origin's clock
    since: datetime
    until: datetime
    #: all that it sent to its former master was of this group
    alone: bool

    def is_in(self, known: Mapping[tuple[str, str], SecondWay]) -> bool:
        """Whether it is known, with all its transactions."""
        other = known.get((self.replication_group, self.origin))
        return (
            other is not None
            and other.since <= self.since
            and other.until >= self.until
            and other.alone <= self.alone
        )


def list_ways(connection: Connection) -> list[SecondWay]:
    """What this site watches for."""
    return [SecondWay(**row._mapping) for row in connection.execute(_WAYS)]


_WAYS = planned_once(
    select(*(second_way.c[name] for name in SecondWay.__slots__)).order_by(
        "replication_group", "origin"
    )
)


def note(connection: Connection, way: SecondWay) -> None:
    """Remember a second way, or that it is about more transactions than before."""
    values = {name: getattr(way, name) for name in SecondWay.__slots__}
    new = insert(second_way).values(values)
    then = second_way.c
    connection.execute(
        new.on_conflict_do_update(
            index_elements=[then.replication_group, then.origin],
            set_={
                "since": func.least(then.since, new.excluded.since),
                "until": func.greatest(then.until, new.excluded.until),
                "alone": and_(then.alone, new.excluded.alone),
            },
        )
    )


def pass_on(origin: Connection, target: Connection) -> None:
    """Have a destination watch for what this site watches for; commits there.

    To be called before each batch.
    """
    with each_by_itself(origin):
        ways = list_ways(origin)
    if ways:
        watch(target, ways)


def watch(connection: Connection, ways: Sequence[SecondWay]) -> None:
    """Have a master watch for these; commits.

    It looks up what has come already, and nobody may bring anything meanwhile.
    """
    with connection.begin():
        here = {
            (one.replication_group, one.origin): one for one in list_ways(connection)
        }
    missing = [way for way in ways if not way.is_in(here)]
    if not missing:
        return
    with connection.begin():
        marker.keep_new_out(connection)
        for sender in _senders(connection):
            marker.claim(connection, sender)
        locked = select(push_marker.c.origin_id).order_by("origin_id")
        connection.execute(locked.with_for_update())
        for way in missing:
            note(connection, way)
        for way in list_ways(connection):
            connection.execute(_already_here(way))
            connection.execute(_set_complete(way))
        more = push_marker.c.watched + 1
        connection.execute(sa.update(push_marker).values(watched=more))


def is_in(
    origin: Connection, target: Connection, batch: Batch, sender: str, at: Marker
) -> bool:
    """Whether a batch has transactions that its destination watches for.

    Parameters:
        at: the marker as it stands there.
    """
    if not at.watched:
        return False
    made = deferred_transaction.c
    began, made_at = (
        func.coalesce(made.origin, sender),
        func.coalesce(made.made_at, made.start_time),
    )
    found = [
        and_(began == way.origin, made_at.between(way.since, way.until))
        for way in list_ways(target)
    ]
    wanted = (
        select(delivery.c.xid)
        .join(deferred_transaction, made.xid == delivery.c.xid)
        .where(within(batch, -1, batch.end), sa.or_(sa.false(), *found))
    )
    return bool(origin.scalar(select(wanted.exists())))


def taken(way: SecondWay) -> sa.Select[tuple[int, datetime]]:
    """Transactions that have come to a master which watches for them, certainly."""
    row = taken_transaction.c
    return select(row.transaction, row.made_at).where(
        row.replication_group == way.replication_group,
        row.origin == way.origin,
        row.certain,
    )


def first_sender(
    connection: Connection, origin: str, transaction: int, made_at: datetime
) -> str | None:
    """Who has brought a transaction here first; None where batches do not say."""
    return connection.scalar(
        select(push_marker.c.origin)
        .select_from(_NOTED)
        .where(
            _HAS_COME,
            func.coalesce(_each.c.origin, push_marker.c.origin) == origin,
            _each.c.transaction == transaction,
            literal(made_at) == _MADE_AT,
        )
        .order_by(push_batch.c.shipped_at)
        .limit(1)
    )


def purge(connection: Connection, retention: timedelta) -> None:
    """Watch no longer for transactions that were queued so long ago."""
    old = func.clock_timestamp() - cast(retention, sa.Interval)
    gone = connection.execute(
        sa.delete(second_way)
        .where(second_way.c.until < old)
        .returning(second_way.c.replication_group, second_way.c.origin)
    ).all()
    if not gone:
        return
    of = sa.tuple_(taken_transaction.c.replication_group, taken_transaction.c.origin)
    connection.execute(sa.delete(taken_transaction).where(of.in_(map(tuple, gone))))
    left = select(second_way.c.origin).exists()
    connection.execute(sa.update(push_marker).where(sa.not_(left)).values(watched=0))


def _senders(connection: Connection) -> list[uuid.UUID]:
    found = connection.scalars(select(push_marker.c.origin_id).order_by("origin_id"))
    return list(found)


def _already_here(way: SecondWay) -> sa.Insert:
    """Remember the transactions that batches have brought here until now.

    A batch does not say what a transaction changed: it is certain where all that its
    sender brings is of one group.
    """
    brings = (
        select(func.count(arrival.c.replication_group.distinct()))
        .where(arrival.c.sender == push_marker.c.origin)
        .scalar_subquery()
    )
    certain = sa.case((_each.c.origin.is_(None), literal(way.alone)), else_=brings == 1)
    found = (
        select(
            literal(way.replication_group),
            literal(way.origin),
            _each.c.transaction,
            _MADE_AT,
            func.bool_or(certain),
        )
        .select_from(_NOTED)
        .where(
            _HAS_COME,
            func.coalesce(_each.c.origin, push_marker.c.origin) == way.origin,
            _MADE_AT.between(way.since, way.until),
            _each.c.transaction.is_not(None),
        )
        .group_by(_each.c.transaction, _MADE_AT)
    )
    columns = ["replication_group", "origin", "transaction", "made_at", "certain"]
    return (
        insert(taken_transaction).from_select(columns, found).on_conflict_do_nothing()
    )


def _set_complete(way: SecondWay) -> sa.Update:
    """Note whether what batches brought since then is known here.

    Not of those from before this was noted; and batches are forgotten some day.
    """
    unknown = select(push_batch.c.number).where(
        push_batch.c.transactions.is_(None), push_batch.c.shipped_at >= way.since
    )
    reach = func.clock_timestamp() - cast(ledger.RETENTION, sa.Interval)
    return (
        sa.update(second_way)
        .where(_is(way))
        .values(complete=and_(sa.not_(unknown.exists()), literal(way.since) > reach))
    )


def _is(way: SecondWay) -> ColumnElement[bool]:
    return and_(
        second_way.c.replication_group == way.replication_group,
        second_way.c.origin == way.origin,
    )


_each = (
    func.unnest(
        push_batch.c.orders,
        push_batch.c.started,
        push_batch.c.transactions,
        push_batch.c.origins,
        push_batch.c.made,
    )
    .table_valued(
        sa.column("order_no", sa.BigInteger),
        sa.column("started", sa.DateTime(timezone=True)),
        sa.column("transaction", sa.BigInteger),
        sa.column("origin", sa.Text),
        sa.column("made_at", sa.DateTime(timezone=True)),
        name="each",
    )
    .render_derived()
)

_MADE_AT = func.coalesce(_each.c.made_at, _each.c.started)
#: The transactions of all batches that were noted here, and which of them have come.
_NOTED = push_batch.join(
    push_marker, push_marker.c.origin_id == push_batch.c.origin_id
).join(_each, sa.true())
_HAS_COME = sa.or_(
    push_batch.c.number < push_marker.c.batch_no,
    and_(
        push_batch.c.number == push_marker.c.batch_no,
        _each.c.order_no <= push_marker.c.order_no,
    ),
)
