"""The ledger of a destination: which transactions each batch of an origin held.

With the marker it says which transactions were applied, also to an origin that was
restored and no longer knows. A row is written before the batch's first transaction is
applied; transactions after the marker were not applied.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    Text,
    and_,
    cast,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from deferred.batches.batch import PART, Batch, placed
from deferred.batches.marker import Marker
from deferred.catalog import (
    deferred_transaction,
    delivery,
    ledger_horizon,
    push_batch,
    push_marker,
)
from sites.capture.position import STRETCH
from sites.sessions import settings
from sites.sessions.exchange import Later
from sites.sessions.prepared import Prepared
from sites.transfer.types import NativeType, PgSnapshot

#: How long a destination can tell a restored origin what it has applied: longer than
#: the age of any backup that an operator would restore.
RETENTION = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The transactions of a batch, in order; the ledger's lists travel as text."""

    #: their order numbers, and how many calls each has
    orders: Sequence[int] = ()
    calls: Sequence[int] = ()
    #: column of the ledger -> its value
    lists: Mapping[str, str | None] = field(default_factory=dict)


def listing(origin: Connection, batch: Batch) -> Listing:
    """Read the transactions of a batch that was cut before.

    Call it where PostgreSQL plans for many, as in `cut.next_batch`.
    """
    return listing_in(_listed().run(origin, **placed(batch, -1, batch.end)).one())


def listing_in(row: Row[*tuple[Any, ...]]) -> Listing:
    """The same from a row with the columns `lists`."""
    found = row._mapping
    orders = _numbers(found["orders"])
    return Listing(
        orders=orders,
        calls=_numbers(found["calls"]) or [1] * len(orders),
        lists={name: found[name] for name in ("orders", *_FACTS)},
    )


def _numbers(array: str | None) -> list[int]:
    """The numbers of an array, as PostgreSQL writes it."""
    found: list[int] = json.loads(f"[{(array or '{}')[1:-1]}]")
    return found


@dataclass(frozen=True, slots=True)
class Noted:
    """What a push has noted of a batch, if nothing was noted of one of its number.

    Another push may have cut one, of a site that was repaired meanwhile. Which of the
    two the ledger has to name is certain when the marker comes to one.
    """

    asked: Later
    values: Mapping[str, Any]

    def put_right(self, target: Connection) -> None:
        """Name this batch, to which the caller moves the marker that it has locked."""
        if self.asked.answer().one_or_none() is None:
            _RENOTED.run(target, **self.values)

    def is_there(self, target: Connection) -> bool:
        """Whether the ledger names this batch, and no other one of its number."""
        its = {name: self.values[name] for name in ("its_origin_id", "its_number")}
        return bool(_NAMED.run(target, **its).scalar() == self.values["its_id"])


def note(
    target: Connection, sender_id: uuid.UUID, batch: Batch, listed: Listing
) -> Noted:
    """Record at the destination the transactions of a batch, before it is applied.

    The only transaction of a batch is applied in the same transaction. Otherwise the
    caller commits, and that is not flushed: the first transaction of the batch is, and
    nobody outside needs the record before.
    """
    facts = {
        "origin_id": sender_id,
        "number": batch.number,
        "id": batch.id,
        "traceparent": batch.traceparent,
        **listed.lists,
    }
    values = {f"its_{name}": value for name, value in facts.items()}
    noted = _noted(flushed=len(listed.orders) == 1)
    return Noted(noted.hold(target, **values), values)


def _given(name: str) -> ColumnElement[Any]:
    return sa.bindparam(f"its_{name}", type_=push_batch.c[name].type)


_KEYS = {name: _given(name) for name in ("origin_id", "number")}
_VALUES = {name: _given(name) for name in ("id", "traceparent")} | {
    name: cast(sa.bindparam(f"its_{name}", type_=Text), push_batch.c[name].type)
    for name in ("orders", "started", "transactions", "origins", "made")
}
_HAS_KEYS = [push_batch.c[name] == value for name, value in _KEYS.items()]
_NAMED = Prepared(select(push_batch.c.id).where(*_HAS_KEYS))
_OTHER = sa.update(push_batch).where(*_HAS_KEYS, push_batch.c.id != _VALUES["id"])
_RENOTED = Prepared(_OTHER.values(_VALUES))


@cache
def _noted(*, flushed: bool) -> Prepared:
    noted = insert(push_batch).values(**_KEYS, **_VALUES).on_conflict_do_nothing()
    return Prepared(noted.returning(sa.true() if flushed else settings.UNFLUSHED))


def with_facts(some: FromClause) -> Select[Any]:
    """Transactions with what the ledger says of each, as `lists` takes them.

    They are found by the index on xid, however many have come since the last purge.

    Parameters:
        some: the transactions, with `xid`, `order_no` and `calls`.
    """
    xids = func.any(func.array(select(some.c.xid).scalar_subquery()))
    return (
        select(some.c.order_no, some.c.calls, *facts())
        .join_from(some, deferred_transaction, some.c.xid == _MADE.xid)
        .where(_MADE.xid == xids)
    )


def facts() -> list[ColumnElement[Any]]:
    """What the ledger says of a row of `deferred_transaction`, besides its number."""
    return [value.label(name) for name, value in _FACTS.items()]


def lists(each: FromClause) -> list[ColumnElement[Any]]:
    """The transactions of a batch, as one list for each fact, in their order.

    Lists travel as text, because there may be many entries; both ends read it alike.
    Those that would say the same of each are NULL, and not put together: usually each
    transaction has one call, and was made here.

    Parameters:
        each: the transactions, with `order_no`, `calls` and `facts`. It is read once
            for each list that is not always there, so a CTE is best.
    """
    found = each.c

    def in_order_if_any(
        value: ColumnElement[Any], wanted: ColumnElement[bool]
    ) -> ColumnElement[Any]:
        there = select(found.order_no).where(wanted).correlate(None).exists()
        every = select(_in_order(each, value)).correlate(None).scalar_subquery()
        return sa.case((there, every))

    brought = found.origins.is_not(None)
    rarely = {
        "calls": found.calls > 1,
        "origins": brought,
        "made": brought,
    }
    return [
        *always_listed(each),
        *(
            in_order_if_any(found[name], wanted).label(name)
            for name, wanted in rarely.items()
        ),
    ]


def always_listed(each: FromClause) -> list[ColumnElement[Any]]:
    """The `lists` that every batch has, because each transaction has its own value."""
    of = {"orders": "order_no", "started": "started", "transactions": "transactions"}
    return [_in_order(each, each.c[value]).label(name) for name, value in of.items()]


def _in_order(each: FromClause, value: ColumnElement[Any]) -> ColumnElement[Any]:
    every = func.array_agg(aggregate_order_by(value, each.c.order_no))
    return cast(every, Text)


@cache
def _listed() -> Prepared:
    its = select(delivery.c.xid, delivery.c.order_no, delivery.c.calls).where(PART)
    each = with_facts(its.cte("its")).cte("each")
    return Prepared(select(*lists(each)))


def original(xid: ColumnElement[Any]) -> ColumnElement[int]:
    """The first id of a transaction, before repairs changed it."""
    number = cast(cast(xid, Text), sa.BigInteger)
    return func.mod(number, literal(STRETCH, sa.BigInteger))


_MADE = deferred_transaction.c
#: By column of the ledger: the fact of each transaction that its list holds.
_FACTS = {
    "started": _MADE.start_time,
    "transactions": original(
        func.coalesce(_MADE.origin_transaction, cast(_MADE.xid, Text))
    ),
    "origins": _MADE.origin,
    "made": _MADE.made_at,
}


#: The columns of a statement's row that `listing_in` reads.
LISTS = ("orders", "calls", *_FACTS)


def reaches_back_to(target: Connection, sender_id: uuid.UUID, at: Marker) -> int:
    """The first batch from which the ledger is complete, up to the marker."""
    oldest = select(func.min(push_batch.c.number)).where(
        push_batch.c.origin_id == sender_id, push_batch.c.number <= at.batch_no
    )
    return target.scalar(oldest) or at.batch_no + 1


def answered(sender_id: uuid.UUID, at: Marker) -> Select[tuple[object, ...]]:
    """Transactions that the destination has answered: batch, order number, start.

    All of them, because neither clocks nor the numbers of another incarnation can tell
    which ones matter.
    """
    each = (
        func.unnest(push_batch.c.orders, push_batch.c.started)
        .table_valued(
            sa.column("order_no", sa.BigInteger),
            sa.column("started", sa.DateTime(timezone=True)),
        )
        .render_derived()
    )
    return (
        select(push_batch.c.number, each.c.order_no, each.c.started)
        .select_from(push_batch.join(each, sa.true()))
        .where(
            push_batch.c.origin_id == sender_id,
            or_(
                push_batch.c.number < at.batch_no,
                and_(
                    push_batch.c.number == at.batch_no, each.c.order_no <= at.order_no
                ),
            ),
        )
    )


def traceparents(destination: Connection, since: str, most: int) -> Sequence[str]:
    """What batches carry of which transactions were answered since a position.

    The newest ones, no more than `most`. A batch that was noted before the position
    and answered after it may be missing, if another one has followed.
    """
    before = {"its_snapshot": since, "its_most": most}
    return destination.scalars(_traced(), before).all()


@cache
def _traced() -> Select[Any]:
    marked = push_marker.alias("marked")
    newest = (
        select(
            push_batch.c.number,
            push_batch.c.traceparent,
            push_batch.c.shipped_at,
            _written_since("push_batch").label("new"),
        )
        .where(
            push_batch.c.origin_id == marked.c.origin_id,
            push_batch.c.number <= marked.c.batch_no,
        )
        .order_by(push_batch.c.number.desc())
        .limit(_MOST)
        .lateral("newest")
    )
    went_on = and_(newest.c.number == marked.c.batch_no, _written_since("marked"))
    return (
        select(newest.c.traceparent)
        .select_from(marked.join(newest, sa.true()))
        .where(newest.c.traceparent.is_not(None), or_(newest.c.new, went_on))
        .order_by(newest.c.shipped_at.desc())
        .limit(_MOST)
    )


_XID = NativeType("xid")
_MOST = sa.bindparam("its_most", type_=sa.BigInteger)


def _written_since(table: str) -> ColumnElement[bool]:
    """Whether the transaction that wrote a row had not ended at `its_snapshot`."""
    xmin = sa.literal_column(f"{table}.xmin", _XID)
    old = cast(sa.bindparam("its_snapshot", type_=Text), PgSnapshot())
    end = cast(func.pg_snapshot_xmax(old), _XID)
    running = select(cast(func.pg_snapshot_xip(old), _XID)).scalar_subquery()
    return or_(func.age(xmin) <= func.age(end), xmin == sa.any_(func.array(running)))


def purge(connection: Connection, retention: timedelta = RETENTION) -> int:
    """Delete old batches at a destination; the marker's own batch stays."""
    at = push_marker.alias()
    current = sa.exists().where(
        at.c.origin_id == push_batch.c.origin_id, at.c.batch_no <= push_batch.c.number
    )
    old = push_batch.c.shipped_at < func.clock_timestamp() - sa.cast(
        retention, sa.Interval
    )
    gone = and_(old, sa.not_(current))
    connection.execute(_note_forgotten(gone))
    return connection.execute(sa.delete(push_batch).where(gone)).rowcount


def _note_forgotten(gone: ColumnElement[bool]) -> sa.Insert:
    """Note, for each origin, the last transaction that is deleted from the ledger."""
    number = func.unnest(push_batch.c.transactions, push_batch.c.origins).table_valued(
        sa.column("transaction", sa.BigInteger), sa.column("origin", Text)
    )
    each = number.render_derived()
    origin = func.coalesce(each.c.origin, push_marker.c.origin)
    found = (
        select(origin, func.max(each.c.transaction))
        .select_from(
            push_batch.join(
                push_marker, push_marker.c.origin_id == push_batch.c.origin_id
            ).join(each, sa.true())
        )
        .where(gone, each.c.transaction.is_not(None))
        .group_by(origin)
    )
    columns = ledger_horizon.c
    new = insert(ledger_horizon).from_select(["origin", "transaction"], found)
    return new.on_conflict_do_update(
        index_elements=[columns.origin],
        set_={
            "transaction": func.greatest(columns.transaction, new.excluded.transaction)
        },
    )
