"""Cutting a queue into batches.

A window holds the transactions that one database snapshot shows and the one before it
did not; they get their order once, and batches are cut from the window in that order. A
new window is opened only when the old one is used up, so a transaction that commits
late falls into a later window, and is never missed (docs/explanation/positions.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    cast,
    func,
    literal,
    select,
)

from deferred.batches import ledger, whole_window, window
from deferred.batches.batch import Batch, answered, noted
from deferred.batches.ledger import Listing
from deferred.batches.marker import Marker
from deferred.catalog import (
    deferred_transaction,
    delivery,
    delivery_row,
    destination,
)
from deferred.errors import NoSuchDestination, PositionMismatch
from deferred.queues.queue import Queue, call_numbers, call_numbers_of, list_queues
from sites.capture import position
from sites.sessions.prepared import Prepared
from sites.transfer.types import PgSnapshot

#: A batch is closed at this many calls; a single larger transaction still fits.
BATCH_CALLS = 50_000


def next_batch(
    connection: Connection,
    name: str,
    marker: Marker,
    calls: int = BATCH_CALLS,
    *,
    queues: Callable[[], Sequence[Queue]] | None = None,
    likely: bool = False,
    traceparent: str | None = None,
) -> tuple[Batch, Listing] | None:
    """The batch to push, with its transactions; None if all is pushed.

    Notes what the destination has answered, by the marker. Writes batch, delivery_row
    and destination; call it in a REPEATABLE READ transaction.

    Parameters:
        marker: where the destination stands.
        calls: how many close a new batch.
        queues: lists those that go to the destination, when they are needed.
        likely: they will be: list them in the round trip of the first question.
        traceparent: what a new batch carries, and one that carries nothing yet.

    Raises:
        NoSuchDestination: nothing here is queued for it.
        PositionMismatch: the destination stands at no batch of ours.
    """
    asked = _HEAD.hold(
        connection,
        its_name=name,
        its_many=whole_window.MANY,
        **answered(name, marker),
    )
    if likely and queues:
        queues()
    row = asked.answer().one_or_none()
    if row is None:
        raise NoSuchDestination(
            f"Nothing is queued here for {name!r}.", destination=name
        )
    if not _done(row, marker):
        batch = Batch(
            destination=name,
            number=row.batch_no,
            id=row.batch_id,
            end=row.batch_end,
            traceparent=row.traceparent or traceparent,
        )
        return batch, ledger.listing(connection, batch)
    new = New(number=row.batch_no + 1, trace=traceparent)
    found = _cut(connection, row, calls, new) if row.left else None
    if found is None and row.more:
        going = queues() if queues else list_queues(connection, name)
        return _open_window(connection, row, calls, tuple(going), new)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class New:
    """What a batch gets when it is cut, by the names that `window.beginning` takes."""

    number: int
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    trace: str | None

    def batch(
        self, name: str, begun: Row[*tuple[Any, ...]] | None
    ) -> tuple[Batch, Listing] | None:
        """The batch with its transactions; None if there was nothing to cut."""
        if begun is None:
            return None
        batch = Batch(
            destination=name,
            number=self.number,
            id=self.id,
            end=begun.batch_end,
            traceparent=self.trace,
        )
        return batch, ledger.listing_in(begun)


_NAME = sa.bindparam("its_name", type_=sa.Text)


def _many_since(at: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether at least `whole_window.MANY` transactions began since a position.

    A batch of so many may do without a row for each.
    """
    most = sa.bindparam("its_many", type_=sa.BigInteger)
    begun = position.begun_since(deferred_transaction.c.xid, at)
    some: sa.Select[Any] = select(sa.literal_column("1")).where(begun).limit(most)
    found = some.correlate(destination).subquery()
    return select(func.count() >= most).select_from(found).scalar_subquery()


#: Notes what the destination has answered. Reads the destination's row; whether the
#: window has transactions left, and whether any, and many, were queued since it was
#: opened; the position of this transaction. From here on PostgreSQL plans for many:
#: new rows are not analysed yet, and with plans for a few rows it would look up each
#: transaction of a window by itself, or read the whole queue for one.
_HEAD = Prepared(
    select(
        destination,
        sa.exists()
        .where(delivery_row.c.destination == _NAME, delivery_row.c.batch.is_(None))
        .label("left"),
        position.any_since(deferred_transaction.c.xid, destination.c.window_end).label(
            "more"
        ),
        _many_since(destination.c.window_end).label("many"),
        cast(func.pg_current_snapshot(), sa.Text).label("now"),
        func.set_config("enable_nestloop", "off", True),
        func.set_config("enable_seqscan", "off", True),
    )
    .where(destination.c.name == _NAME)
    .with_for_update(of=destination)
    .add_cte(noted().cte("noted"))
)


def _done(row: Row[Any], marker: Marker) -> bool:
    """Whether the destination has answered our newest batch to its end.

    Raises:
        PositionMismatch: it stands neither in that batch nor right before it.
    """
    at = (marker.batch_no, marker.batch_id)
    if at == (row.batch_no, row.batch_id) and marker.order_no <= row.batch_end:
        return bool(marker.order_no == row.batch_end)
    before = (row.batch_no - 1, row.previous_id)
    if at == before and marker.order_no == row.previous_end:
        return False
    raise PositionMismatch(
        f"{row.name} is at batch {marker.batch_no} of this site, place "
        f"{marker.order_no}; this site's newest batch is {row.batch_no}.",
        destination=row.name,
        marker=marker.batch_no,
        batch=row.batch_no,
    )


def _cut(
    connection: Connection, row: Row[Any], most: int, new: New
) -> tuple[Batch, Listing] | None:
    """Cut a batch from the transactions of the window that are in none yet."""
    # Each has at least one call, so a batch holds at most this many transactions.
    its = delivery_row.c
    next_ones = (
        select(its.xid, its.order_no, its.calls)
        .where(its.destination == row.name, its.batch.is_(None))
        .order_by(its.order_no)
        .limit(most)
        .subquery()
    )
    before = _calls_before(next_ones.c.calls, next_ones.c.order_no)
    ahead = select(next_ones.c.xid, before.label("before")).subquery()
    taken = (
        sa.update(delivery_row)
        .where(
            its.destination == row.name,
            its.xid.in_(select(ahead.c.xid).where(ahead.c.before < most)),
        )
        .values(batch=new.number)
        .returning(its.xid, its.order_no, its.calls)
        .cte("taken")
    )
    begun = connection.execute(
        _beginning(row.name, ledger.with_facts(taken).cte("its")), asdict(new)
    )
    return new.batch(row.name, begun.one_or_none())


def _calls_before(
    calls: ColumnElement[int], order_no: ColumnElement[int]
) -> ColumnElement[int]:
    """The number of calls of the transactions before this one."""
    before_and_with_it = func.sum(calls).over(order_by=order_no, rows=(None, 0))
    return before_and_with_it - calls


def _beginning(name: str, its: FromClause, **values: Any) -> sa.Select[Any]:
    """Make the batch of these transactions current, and list them for the ledger.

    Parameters:
        its: the transactions, as `ledger.lists` takes them.
        values: new values of other columns of the destination.
    """
    end = select(func.max(its.c.order_no)).scalar_subquery()
    listed = select(*ledger.lists(its)).subquery("listed")
    return window.beginning(name, end, listed, **values)


def _open_window(
    connection: Connection,
    row: Row[Any],
    most: int,
    queues: tuple[Queue, ...],
    new: New,
) -> tuple[Batch, Listing] | None:
    """Take the transactions since the last window, and cut the first batch of them."""
    places = {"seen": row.window_end, "now": row.now, "most": most, **asdict(new)}
    begun = None
    if row.many:
        whole = whole_window.first_cut(queues, row.name)
        many = whole_window.MANY
        begun = whole.run(connection, **places, many=many).one_or_none()
    if begun is None:
        begun = _first_cut(queues, row.name).run(connection, **places).one_or_none()
    if begun is None:
        # What was queued goes to other destinations, or its queue was dropped.
        seen = {"window_end": cast(literal(row.now), PgSnapshot())}
        connection.execute(
            sa.update(destination).where(destination.c.name == row.name).values(seen)
        )
    return new.batch(row.name, begun)


def deliveries(connection: Connection, name: str) -> sa.Insert:
    """Insert deliveries to a destination for transactions that are in no window yet."""
    known = sa.exists().where(
        delivery.c.destination == name, delivery.c.xid == deferred_transaction.c.xid
    )
    rows = window.rows(call_numbers(connection, name), name)
    return window.insert(rows.where(sa.not_(known)))


@lru_cache(maxsize=64)
def _first_cut(queues: tuple[Queue, ...], name: str) -> Prepared:
    """Insert the transactions of a new window, and begin its first batch.

    Takes `seen` and `now`, the positions of the window before and of this one; the
    fields of `New`; and `most`, the calls of the batch.
    """
    since = sa.bindparam("seen", position.START, sa.Text)
    now = cast(sa.bindparam("now", position.START, sa.Text), PgSnapshot())
    when = partial(position.since, position=since)
    rows = window.rows(call_numbers_of(queues, name), name, when)
    new = rows.add_columns(*ledger.facts()).subquery()
    before = _calls_before(new.c.calls, new.c.order_no)
    most = sa.bindparam("most", 0, sa.BigInteger)
    batch = sa.case((before < most, window.NUMBER)).label("batch")
    opened = select(*new.c, batch).cte("opened").prefix_with("MATERIALIZED")
    columns = (*window.COLUMNS, "batch")
    written = window.insert(select(*(opened.c[n] for n in columns)), "batch")
    its = select(opened).where(opened.c.batch == window.NUMBER).subquery("its")
    begun = _beginning(name, its, window_end=now)
    return Prepared(begun.add_cte(written.cte("written")))
