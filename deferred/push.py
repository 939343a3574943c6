"""Push: carry the deferred transactions of a site to a destination, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from deferred import (
    agreement,
    budget,
    ledger,
    marker,
    net_change,
    notification,
    sqlstate,
    work,
)
from deferred import batch as batches
from deferred.batch import Batch, Waiting
from deferred.catalog import delivery, destination
from deferred.delivery import Delivered, Origin, deliver
from deferred.errors import DestinationDisabled, NoSuchDestination, PushInterrupted
from deferred.pusher import only_pusher
from deferred.queue import Queue, list_queues
from sites import Site, faults, identity, peers, transport
from sites.errors import SnaptideError
from sites.identity import Identity
from sites.write import Staged

#: Told how far a push has come: done, total (None if unknown), unit.
Progress = Callable[[int, int | None, str], None]

#: How often an idle pusher with delay_seconds looks for new work, in seconds.
POLL = 0.2


#: How long users keep a row to themselves before a push begins again, in seconds.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of Oracle's DBMS_DEFER_SYS.EXECUTE, with its defaults.

    Raises (on construction):
        ValueError: a number is negative.
    """

    #: end the run at the first transaction that had to be parked
    stop_on_error: bool = False
    #: end after this many transactions; 0 is no limit
    transaction_count: int = 0
    #: end after this many seconds, between two transactions; 0 is no limit
    execution_seconds: float = 0
    #: wait this long for new work before returning, when nothing is queued
    delay_seconds: float = 0
    #: commit at the destination only once more than this many calls have run;
    #: 0 commits each transaction by itself
    batch_size: int = 0

    def __post_init__(self) -> None:
        for name in (
            "transaction_count",
            "execution_seconds",
            "delay_seconds",
            "batch_size",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """What a push did."""

    site: str
    destination: str
    #: transactions the destination answered, applied and parked
    transactions: int = 0
    calls: int = 0
    #: transactions parked in the destination's error queue
    errors: int = 0
    error_ids: tuple[int, ...] = ()
    conflicts_resolved: int = 0
    seconds: float = 0.0
    #: another pusher was at work, so this one did nothing
    another_pusher: bool = False


@dataclass(slots=True)
class _Run:
    """What a push has done so far, and when it has to stop."""

    options: Options
    progress: Progress | None
    began: float = field(default_factory=time.monotonic)
    transactions: int = 0
    calls: int = 0
    resolved: int = 0
    error_ids: list[int] = field(default_factory=list)
    #: has both sides remember the contact; None once it has happened
    meet: Callable[[], object] | None = None

    def begin(self) -> None:
        """Have both sides remember this contact, before the first batch."""
        if self.meet is not None:
            self.meet()
            self.meet = None

    def count(self, transaction: Waiting, delivered: Delivered) -> None:
        if delivered.fresh:
            self.transactions += 1
            self.calls += transaction.calls
            self.resolved += delivered.resolved
            if delivered.error_id is not None:
                self.error_ids.append(delivered.error_id)
        if self.progress:
            self.progress(self.transactions, None, "transactions")

    def over(self, uncommitted: int = 0) -> bool:
        options = self.options
        return (
            (options.stop_on_error and bool(self.error_ids))
            or 0 < options.transaction_count <= self.transactions + uncommitted
            or 0 < options.execution_seconds <= time.monotonic() - self.began
        )


def push(
    site: Site,
    destination: str | None = None,
    *,
    stop_on_error: bool = False,
    transaction_count: int = 0,
    execution_seconds: float = 0,
    delay_seconds: float = 0,
    batch_size: int = 0,
    progress: Progress | None = None,
) -> PushReport:
    """Carry queued transactions to their destination (Oracle: DBMS_DEFER_SYS.EXECUTE).

    Each is applied whole or not at all, once, in order; one that cannot be
    applied is parked in the destination's error queue, and the rest goes on.

    Parameters:
        site: the origin.
        destination: a site that this one has queues for; may be left out when
            there is only one.
        stop_on_error, transaction_count, execution_seconds, delay_seconds,
            batch_size: see `Options`.
        progress: called with (transactions, None, "transactions").

    Raises:
        SiteUnreachable: either end cannot be reached; the queue stays as it is.
        NoSuchDestination, DestinationDisabled, DestinationInvalid, PositionMismatch.
        SiteChanged, SiteRestored, SiteReplaced: one side has to be repaired first.
        PastRetention, CannotTell: a restore went back too far.
        PushInterrupted: the system failed on the way; the rest stays queued.
    """
    options = Options(
        stop_on_error=stop_on_error,
        transaction_count=transaction_count,
        execution_seconds=execution_seconds,
        delay_seconds=delay_seconds,
        batch_size=batch_size,
    )
    run = _Run(options, progress)
    with site.connect() as origin:
        me = identity.confirm(origin, site.name)
        name = _destination(origin, destination)
        origin.rollback()
        with only_pusher(origin, name) as alone:
            if alone:
                try:
                    _push(origin, site, me, name, run)
                except SnaptideError as error:
                    _note_failure(origin, name, error.message)
                    raise
                except DBAPIError as error:
                    raise _interrupted(origin, name, error) from error
                _note_success(origin, name, run.transactions)
    return PushReport(
        site=site.name,
        destination=name,
        transactions=run.transactions,
        calls=run.calls,
        errors=len(run.error_ids),
        error_ids=tuple(run.error_ids),
        conflicts_resolved=run.resolved,
        seconds=time.monotonic() - run.began,
        another_pusher=not alone,
    )


def destinations(site: Site) -> list[str]:
    """The destinations that a site has queues for."""
    with site.begin() as connection:
        identity.read(connection)
        return list(
            connection.scalars(select(destination.c.name).order_by(destination.c.name))
        )


def _push(origin: Connection, site: Site, me: Identity, name: str, run: _Run) -> None:
    with site.peer(name).connect() as target:
        them = agreement.confirm(origin, target, me, name)
        run.meet = partial(peers.meet, origin, target, me, them)
        who = Origin(id=me.site_id, name=site.name, master=name)
        _push_all(origin, target, who, run)
        notification.announce(target, name, who.id)


def _push_all(origin: Connection, target: Connection, who: Origin, run: _Run) -> None:
    """Push batch after batch, as long as there is one and the options allow it."""
    idle_until = time.monotonic() + run.options.delay_seconds
    while not run.over():
        if _push_patiently(origin, target, who, run):
            continue
        if time.monotonic() >= idle_until:
            return
        time.sleep(POLL)


def _push_patiently(
    origin: Connection, target: Connection, who: Origin, run: _Run
) -> bool:
    """Push a batch, and go on with it when a user held a row for a while."""
    pauses, done = iter(PAUSES), run.transactions
    while True:
        try:
            return _push_batch(origin, target, who, run)
        except DBAPIError as error:
            if run.transactions > done:
                pauses, done = iter(PAUSES), run.transactions
            pause = next(pauses, None)
            if pause is None or not sqlstate.gave_way(error):
                raise
        target.rollback()
        time.sleep(pause)


def _push_batch(origin: Connection, target: Connection, who: Origin, run: _Run) -> bool:
    """Push what is left of the current batch, or the next one; False without any."""
    at = marker.read(target, who.id)
    target.rollback()
    origin.execution_options(isolation_level="REPEATABLE READ")
    try:
        batch = batches.next_batch(origin, who.master, at)
        faults.point("push.before_cut_commit")
        origin.commit()
        if batch is None:
            return False
        run.begin()
        transactions = batches.waiting(origin, batch, at)
        faults.point("push.after_cut")
        after = at.order_no if at.batch_id == batch.id else -1
        staged = _ship(origin, target, who, batch, after)
    finally:
        if not origin.invalidated:
            origin.rollback()
            origin.execution_options(isolation_level="READ COMMITTED")
    faults.point("push.after_ship")
    _deliver_all(target, who, batch, transactions, staged, run)
    faults.point("push.before_mark")
    with origin.begin():
        batches.note_delivered(origin, who.master, marker.read(target, who.id))
        faults.point("push.before_mark_commit")
    target.rollback()
    return True


def _ship(
    origin: Connection, target: Connection, who: Origin, batch: Batch, after: int
) -> list[Staged]:
    """Copy the net changes of a batch's transactions into work tables."""
    staged = []
    transactions = (
        select(delivery.c.xid, delivery.c.order_no)
        .where(
            delivery.c.destination == batch.destination,
            delivery.c.batch == batch.number,
            delivery.c.order_no > after,
        )
        .subquery()
    )
    for queue in list_queues(origin, batch.destination):
        one = work.stage(
            target, queue.id, queue.target, queue.columns, queue.identity_columns
        )
        _ship_queue(origin, target, queue, one, transactions)
        staged.append(one)
    ledger.note(origin, target, who.id, batch)
    faults.point("push.before_ship_commit")
    target.commit()
    return staged


def _ship_queue(
    origin: Connection,
    target: Connection,
    queue: Queue,
    staged: Staged,
    transactions: sa.Subquery,
) -> None:
    rows = transport.copy(
        origin,
        net_change.net_changes(queue, transactions),
        target,
        staged.source,
        net_change.columns_of(queue),
    )
    if rows > 1000:  # the planner takes a fresh table for a small one
        transport.analyze(target, staged.source)


def _deliver_all(
    target: Connection,
    who: Origin,
    batch: Batch,
    transactions: Sequence[Waiting],
    staged: Sequence[Staged],
    run: _Run,
) -> None:
    open_calls, open_work = 0, list[tuple[Waiting, Delivered]]()

    def commit() -> None:
        faults.point("push.before_commit")
        target.commit()
        faults.point("push.after_commit")
        for transaction, delivered in open_work:
            run.count(transaction, delivered)
        open_work.clear()

    for transaction in transactions:
        delivered = deliver(target, who, batch, transaction, staged)
        open_work.append((transaction, delivered))
        open_calls += transaction.calls
        if open_calls > run.options.batch_size or delivered.error_id is not None:
            commit()
            open_calls = 0
        if run.over(sum(delivered.fresh for _, delivered in open_work)):
            break
    commit()


def _destination(connection: Connection, name: str | None) -> str:
    rows = connection.execute(select(destination.c.name, destination.c.disabled)).all()
    known = {row.name: row.disabled for row in rows}
    if name is None and len(known) == 1:
        name = next(iter(known))
    if name is None or name not in known:
        others = ", ".join(sorted(known)) or "none"
        asked = f"Nothing is queued here for {name!r}" if name else "Name a destination"
        raise NoSuchDestination(f"{asked} (known: {others}).", destination=name)
    if known[name]:
        raise DestinationDisabled(
            f"Propagation to {name} is disabled.", destination=name
        )
    budget.judge(connection, name)
    return name


def _interrupted(origin: Connection, name: str, error: DBAPIError) -> PushInterrupted:
    reason = sqlstate.message(error)
    _note_failure(origin, name, reason)
    return PushInterrupted(
        f"The push to {name} stopped: {reason}",
        destination=name,
        sqlstate=sqlstate.of(error),
    )


def _note_success(origin: Connection, name: str, transactions: int) -> None:
    _note(
        origin,
        name,
        last_push_at=func.now(),
        last_txn_count=transactions,
        last_error=None,
        **budget.GOES_ON,
    )


def _note_failure(origin: Connection, name: str, reason: str) -> None:
    if not origin.invalidated:
        origin.rollback()
        _note(
            origin,
            name,
            last_error=reason,
            last_error_at=func.now(),
            **budget.pause(),
        )


def _note(origin: Connection, name: str, **values: object) -> None:
    with origin.begin():
        origin.execute(
            sa.update(destination).where(destination.c.name == name).values(values)
        )
