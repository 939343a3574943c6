"""Push: carry the deferred transactions of a site to a destination, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

from sqlalchemy import Connection, Row, select
from sqlalchemy.exc import DBAPIError
from tenacity import stop_after_attempt, wait_chain, wait_fixed

from deferred import sqlstate
from deferred.batches import batch as batches
from deferred.batches import (
    cut,
    ledger,
    marker,
    reconcile,
    relay,
)
from deferred.batches.batch import Batch
from deferred.batches.pusher import only_pusher
from deferred.batches.sender import Sender
from deferred.batches.shipping import Shipment, prepare_shipment, with_calls
from deferred.catalog import destination
from deferred.errors import (
    DestinationQuiet,
    NoSuchDestination,
    OtherSchemaVersion,
    TooManyErrors,
)
from deferred.options import ErrorAction, PushArguments, PushOptions
from deferred.parked import error_queue, notification
from deferred.pushing import apply_groups, noted, streams
from deferred.pushing.run import Run
from deferred.queues import budget, destination_state, queue
from deferred.queues.backlog import calls_left
from masters.numbers import columns, contact
from sites import Site, configured, faults, identity, outdated, peers, retry
from sites.errors import SnaptideError
from sites.identity import Identity
from sites.prepared import planned_once
from sites.progress import Progress
from sites.site import autocommit

#: Seconds after which an idle pusher with delay_seconds looks for new work.
POLL = 0.2


#: Seconds that a push waits before each new attempt, if a user holds a row.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """The result of a push."""

    site: str
    destination: str
    #: transactions the destination answered, applied and parked
    transactions: int = 0
    calls: int = 0
    #: transactions parked in the destination's error queue
    errors: int = 0
    error_ids: tuple[int, ...] = ()
    #: parked there only because a group of theirs is quiet; not among the errors
    held_back: int = 0
    conflicts_resolved: int = 0
    seconds: float = 0.0
    #: another pusher was at work, so this one did nothing
    another_pusher: bool = False


def push(
    site: Site,
    destination: str | None = None,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    **options: Unpack[PushArguments],
) -> PushReport:
    """Carry queued transactions to their destination (Oracle: DBMS_DEFER_SYS.EXECUTE).

    Each is applied whole or not at all, once, in order; one that cannot be
    applied is parked in the destination's error queue, and the rest goes on.
    Transactions are applied in groups if the result is the same.

    Parameters:
        site: the origin.
        destination: a site that this one has queues for; may be left out when
            there is only one.
        progress: called with (calls done, calls in all, "calls"); the second counts
            the waiting calls at one moment, and grows when more have come.
        stop: when it returns True, the push ends between two commits.
        **options: the fields of `PushOptions`, as `transaction_count=1000`.

    Raises:
        BadOption: there is no such option, or its value is not allowed.
        SiteUnreachable: either end cannot be reached; the queue stays as it is.
        NoSuchDestination, DestinationDisabled, DestinationInvalid, PositionMismatch.
        DestinationJoins: it becomes a master, and does not have all rows yet.
        SiteChanged, SiteRestored, SiteReplaced: one side has to be repaired first.
        PastRetention, CannotTell: a restore went back too far.
        OtherSchemaVersion: one side lacks DDL of a replication group.
        PushInterrupted: the system failed on the way; the rest stays queued.
        TransactionRefused: one could not be applied, and `error_action` is stop.
        TooManyErrors: the destination has parked as many as `error_limit` allows.
    """
    chosen = PushOptions.of({**configured.push_options(), **options})
    run = Run(options=chosen, progress=progress, stop=stop)
    with site.session() as origin:
        with autocommit(origin):
            me = identity.confirm(origin, site.name)
            row = _destination(origin, destination)
        name = row.name
        if row.concerned:
            run.relay = relay.of_groups()
        run.numbered = row.numbered
        with only_pusher(origin, name) as alone:
            if alone:
                try:
                    _push_with_plans_of_now(origin, site, me, name, run)
                except SnaptideError as error:
                    noted.note_failure(origin, name, error.message)
                    if isinstance(error, DestinationQuiet | TooManyErrors):
                        noted.keep_quiet(origin, name, error)
                    raise
                except DBAPIError as error:
                    raise noted.interrupted(origin, name, error) from error
                noted.note_success(origin, name, run.transactions)
    return PushReport(
        site=site.name,
        destination=name,
        transactions=run.transactions,
        calls=run.calls,
        errors=len(run.error_ids),
        error_ids=tuple(run.error_ids),
        held_back=run.held_back,
        conflicts_resolved=run.resolved,
        seconds=time.monotonic() - run.began,
        another_pusher=not alone,
    )


def destinations(site: Site) -> list[str]:
    """The destinations that a site's queues go to, by name."""
    name = destination.c.name
    with identity.initialised(site) as connection:
        used = select(name).where(queue.goes_to(name))
        return list(connection.scalars(used.order_by(name)))


def _push_with_plans_of_now(
    origin: Connection, site: Site, me: Identity, name: str, run: Run
) -> None:
    """Push; if the destination's sessions have outdated plans, push in new sessions."""

    def work() -> None:
        origin.rollback()
        _push(origin, site, me, name, run)

    outdated.replaced(site.peer(name), work, lambda: run.transactions)


def _push(origin: Connection, site: Site, me: Identity, name: str, run: Run) -> None:
    with site.peer(name).session() as target:
        them = reconcile.confirm(origin, target, me, name)
        if run.numbered:
            contact.keep_supplied(origin, target, me, them)
        run.meet = partial(peers.meet, origin, target, me, them)
        who = Sender(id=me.site_id, name=site.name, master=name)
        wanted = run.options.parallelism if run.options.parallel else 0
        if run.options.error_limit:
            run.parked = error_queue.count_failed(target, who.id)
            target.commit()
        with streams.opened(site, site.peer(name), wanted) as pairs:
            _push_all(Ends(origin=origin, target=target, pairs=pairs), who, run)
        notification.announce(target, name, who.id)
    if run.too_many_errors:
        parked = run.parked + len(run.error_ids)
        raise TooManyErrors(
            f"{parked} transactions of {site.name} are parked at {name}.",
            transactions=parked,
            destination=name,
            action=ErrorAction.QUIET_SERVER.value,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The connections of a push."""

    origin: Connection
    target: Connection
    #: those of its streams, if there are several
    pairs: Sequence[streams.Pair]


def _push_all(ends: Ends, sender: Sender, run: Run) -> None:
    """Push batch after batch, while there is one and the options allow it."""
    idle_until = time.monotonic() + run.options.delay_seconds
    at: marker.Marker | None = None
    while not run.over():
        at = _push_patiently(ends, sender, run, at)
        if at is not None:
            continue
        if time.monotonic() >= idle_until:
            return
        time.sleep(POLL)


def _push_patiently(
    ends: Ends, sender: Sender, run: Run, at: marker.Marker | None
) -> marker.Marker | None:
    """Push a batch; pause and retry if a user holds a row, or DDL is on its way.

    DDL of a group may have arrived at one side only. Parameters and return value are
    those of `_push_batch`.
    """

    def begin_again() -> None:
        nonlocal at
        ends.origin.rollback()
        ends.target.rollback()
        at = None
        run.held_up += 1

    attempts = retry.on(
        DBAPIError,
        OtherSchemaVersion,
        when=_passes,
        stop=stop_after_attempt(len(PAUSES) + 1),
        wait=wait_chain(*map(wait_fixed, (*PAUSES, 0))),
        progress=lambda: run.transactions,
        between=begin_again,
    )
    return attempts(lambda: _push_batch(ends, sender, run, at))


def _passes(error: DBAPIError | OtherSchemaVersion) -> bool:
    """Whether the reason that stopped a push goes away by itself."""
    return isinstance(error, OtherSchemaVersion) or sqlstate.gave_way(error)


def _push_batch(
    ends: Ends, sender: Sender, run: Run, at: marker.Marker | None
) -> marker.Marker | None:
    """Push the rest of the current batch, or the next one.

    Parameters:
        at: the destination's marker after the batch before; None if it is not known.

    Returns:
        The marker after the batch; None if there was none.
    """
    origin, target = ends.origin, ends.target
    if run.relay.before_batch(origin, target) or at is None:
        with autocommit(target):
            at = marker.read(target, sender.id)
    batch = _next_batch(ends, sender, at)
    if batch is None:
        return None
    run.begin()
    faults.point("push.after_cut")
    if run.relay is relay.NO_GROUP:
        run.relay = relay.at(target)
    shipment = _admitted(ends, batch, sender, at, run)
    run.expect(lambda: _calls_left(origin, batch.destination))
    sender = sender.pushing(shipment.queues)
    after = at.order_no if at.batch_id == batch.id else -1
    groups = apply_groups.planned(shipment, after, run)
    ledger.note(origin, target, sender.id, batch)
    faults.point("push.before_lay_commit")
    if sum(map(len, groups)) > 1:
        target.commit()  # a single transaction's shipment commits this with it
    origin.commit()
    faults.point("push.after_plan")
    streams.apply_all(shipment, ends.pairs, sender, groups, at, run)
    faults.point("push.before_mark")
    with autocommit(target):
        at = marker.read(target, sender.id)
    with origin.begin():
        batches.note_delivered(origin, sender.master, at)
        faults.point("push.before_mark_commit")
    return at


def _admitted(
    ends: Ends, batch: Batch, sender: Sender, at: marker.Marker, run: Run
) -> Shipment:
    """Prepare a batch to be shipped as replication groups want it."""
    queues = queue.list_queues(ends.origin, batch.destination)
    terms = run.relay.admit_batch(
        ends.origin,
        ends.target,
        batch,
        queues,
        sender.pushing(queues),
        at.watch_version,
    )
    used = with_calls(ends.origin, batch, queues)
    prepared = prepare_shipment(ends.origin, ends.target, batch, used)
    return replace(
        prepared, terms=terms, relay=run.relay, watch_version=at.watch_version
    )


def _calls_left(origin: Connection, name: str) -> int:
    return calls_left(origin, name, queue.list_queues(origin, name))


def _next_batch(ends: Ends, sender: Sender, at: marker.Marker) -> Batch | None:
    origin = ends.origin
    origin.execution_options(isolation_level="REPEATABLE READ")
    try:
        # With groups of the usual size, each stream gets at least one.
        calls = cut.BATCH_CALLS * max(len(ends.pairs) // 4, 1)
        batch = cut.next_batch(origin, sender.master, at, calls)
        faults.point("push.before_cut_commit")
        origin.commit()
    finally:
        if not origin.invalidated:
            origin.rollback()
            origin.execution_options(isolation_level="READ COMMITTED")
    return batch


def _destination(connection: Connection, name: str | None) -> Row[Any]:
    known = {row.name: row for row in connection.execute(_DESTINATIONS)}
    if name is None and len(known) == 1:
        name = next(iter(known))
    if name is None or name not in known:
        others = ", ".join(sorted(known)) or "none"
        asked = f"Nothing is queued here for {name!r}" if name else "Name a destination"
        raise NoSuchDestination(f"{asked} (known: {others}).", destination=name)
    if known[name].states:
        destination_state.refuse_closed(connection, name)
    budget.judge(connection, known[name])
    return known[name]


_DESTINATIONS = planned_once(
    select(
        destination,
        destination_state.names_of_states().label("states"),
        relay.CONCERNED.label("concerned"),
        columns.draws_from(destination.c.name).label("numbered"),
    )
)
