"""The loop of a push: batch after batch, each shipped, applied and marked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from tenacity import stop_after_attempt, wait_chain, wait_fixed

from deferred import sqlstate
from deferred.batches import batch as batches
from deferred.batches import cut, ledger, marker, relay
from deferred.batches.batch import Batch
from deferred.batches.groups import ApplyGroup, planned
from deferred.batches.provenance import Sender
from deferred.batches.shipment import (
    Asked,
    Shipment,
    ask,
    prepare_shipment,
    with_calls,
)
from deferred.errors import OtherSchemaVersion
from deferred.pushing import apply_groups, streams
from deferred.pushing.run import Run
from deferred.queues import queue
from deferred.queues.backlog import calls_left
from deferred.queues.queue import Queue
from masters.errors import TableAltered
from sites import faults, retry, traces
from sites.sessions.site import autocommit

#: Seconds after which an idle pusher with delay_seconds looks for new work.
POLL = 0.2

#: Seconds that a push waits before each new attempt, if a user holds a row.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The connections of a push."""

    origin: Connection
    target: Connection
    #: those of its streams, if there are several
    pairs: Sequence[streams.Pair]
    #: where the marker stood when the destination was asked for its groups
    seen: marker.Marker


def push_all(ends: Ends, sender: Sender, run: Run) -> None:
    """Push batch after batch, while there is one and the options allow it."""
    idle_until = time.monotonic() + run.options.delay_seconds
    at: marker.Marker | None = ends.seen
    while not run.over():
        at = _push_patiently(ends, sender, run, at)
        if at is not None:
            continue
        if time.monotonic() >= idle_until:
            return
        time.sleep(POLL)
    run.unfinished = True
    if at is not None:
        # The next batch would have noted it.
        with ends.origin.begin():
            batches.note_delivered(ends.origin, sender.master, at)


def _push_patiently(
    ends: Ends, sender: Sender, run: Run, at: marker.Marker | None
) -> marker.Marker | None:
    """Push a batch; pause and retry if a user holds a row, or DDL is on its way.

    DDL of a group may have arrived at one side only, and a table may be altered while
    its changes are shipped. Parameters and return value are
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
        TableAltered,
        when=_passes,
        stop=stop_after_attempt(len(PAUSES) + 1),
        wait=wait_chain(*map(wait_fixed, (*PAUSES, 0))),
        progress=lambda: run.transactions,
        between=begin_again,
    )
    return attempts(lambda: _push_batch(ends, sender, run, at))


def _passes(error: DBAPIError | OtherSchemaVersion | TableAltered) -> bool:
    """Whether the reason that stopped a push goes away by itself."""
    return not isinstance(error, DBAPIError) or sqlstate.gave_way(error)


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
    if at is None:
        at = _marker(target, sender)
    queues = _Queues(ends, sender.master, foreseen=_is_foreseen(ends, run, at))
    found = _next_batch(ends, sender, at, queues)
    if found is None:
        return None
    batch, listed = found
    if run.relay is relay.NO_GROUP and at is not ends.seen:
        with autocommit(target):
            run.relay = relay.at(target)
    before = run.relay.before_batch(origin, target)
    if before.may_watch:
        # The place stays that of the cut: if another push has gone on, it is noticed.
        at = replace(at, watch_version=_marker(target, sender).watch_version)
    faults.point("push.after_cut")
    shipment = _admitted(ends, found, queues, sender, at, run, before)
    run.expect(lambda: _calls_left(origin, batch.destination))
    sender = sender.pushing(shipment.queues)
    if run.leaves(sum(listed.calls)):
        origin.rollback()
        target.rollback()
        return at
    groups = planned(shipment, at.within(batch.id), run.options, run.left())
    noted = ledger.note(target, sender.id, batch, listed)
    shipment = replace(shipment, noted=noted)
    faults.point("push.before_lay_commit")
    if sum(map(len, groups)) > 1:
        target.commit()  # a single transaction's shipment commits this with it
    origin.commit()
    if len(groups) > 1:
        apply_groups.write_rows(shipment)
    faults.point("push.after_plan")
    to_its_end = _apply(ends, shipment, sender, groups, at, run)
    faults.point("push.before_mark")
    if to_its_end:
        return replace(
            at, batch_no=batch.number, batch_id=batch.id, order_no=groups[-1].end
        )
    return _marker(target, sender)


def _apply(
    ends: Ends,
    shipment: Shipment,
    sender: Sender,
    groups: Sequence[ApplyGroup],
    at: marker.Marker,
    run: Run,
) -> bool:
    """Ship and apply the groups of a batch, in the trace that it carries.

    Parameters:
        at: the marker before the first group.

    Returns:
        Whether all of them are certainly delivered; if not, the marker says how many.
    """
    alone = shipment.terms.may_hold_duplicates or shipment.may_change_values
    alone = alone or bool(shipment.giving)
    facts = {
        "site": sender.name,
        "destination": sender.master,
        **_numbers(shipment.batch),
    }
    carried, before = shipment.batch.traceparent, (run.transactions, run.calls)
    with (
        traces.in_pieces("ship", carried=carried, **facts) as sending,
        traces.span("apply", carried=carried, **facts) as applying,
    ):
        try:
            shipment = replace(shipment, sending=sending)
            if ends.pairs and len(groups) > 1 and not alone:
                streams.apply_all(shipment, ends.pairs, sender, groups, at, run)
                return False
            return all(
                apply_groups.apply_group(shipment, sender, group, run)
                for group in groups
            )
        finally:
            applying.note(
                transactions=run.transactions - before[0], calls=run.calls - before[1]
            )


def _numbers(batch: Batch) -> dict[str, traces.Fact]:
    """Which batch it is, for its spans."""
    return {"batch_number": batch.number, "batch_id": str(batch.id)}


def _marker(target: Connection, sender: Sender) -> marker.Marker:
    with autocommit(target):
        return marker.read(target, sender.id)


def _is_foreseen(ends: Ends, run: Run, at: marker.Marker) -> bool:
    """Whether there is likely a batch, which asks nothing for groups.

    Parameters:
        at: the destination's marker; later batches are not likely.
    """
    return at is ends.seen and run.relay is relay.NO_GROUP


@dataclass(slots=True)
class _Queues:
    """The queues to the destination of a push, listed when they are first needed.

    If there is one, the destination of a batch that is foreseen is asked about it then.
    """

    ends: Ends
    destination: str
    _: KW_ONLY
    foreseen: bool
    asked: Asked | None = None
    _listed: Sequence[Queue] | None = None

    def __call__(self) -> Sequence[Queue]:
        if self._listed is None:
            self._listed = queue.list_queues(self.ends.origin, self.destination)
            if len(self._listed) == 1 and self.foreseen:
                self.asked = ask(self.ends.target, self._listed)
        return self._listed


def _admitted(
    ends: Ends,
    found: tuple[Batch, ledger.Listing],
    queues: _Queues,
    sender: Sender,
    at: marker.Marker,
    run: Run,
    before: relay.Before,
) -> Shipment:
    """Prepare a batch to be shipped as replication groups want it."""
    (batch, listed), origin, target = found, ends.origin, ends.target
    used = with_calls(origin, batch, queues())
    origin.commit()
    # Both sides answer while they note the contact.
    queued = None
    if len(listed.orders) == 1:
        queued = batches.queued_transactions(
            origin, batch, at.within(batch.id), batch.end
        )
    asked = queues.asked or ask(target, used, run.relay, sender.name)
    with run.beginning():
        terms = run.relay.admit_batch(
            origin,
            target,
            batch,
            queues(),
            sender.pushing(queues()),
            at.watch_version,
            before,
            asked.row,
        )
        prepared = prepare_shipment(origin, target, batch, used, asked)
    return replace(
        prepared,
        listed=listed,
        queued=queued,
        terms=terms,
        relay=run.relay,
        began_at=at,
    )


def _calls_left(origin: Connection, name: str) -> int:
    return calls_left(origin, name, queue.list_queues(origin, name))


def _next_batch(
    ends: Ends,
    sender: Sender,
    at: marker.Marker,
    queues: Callable[[], Sequence[Queue]],
) -> tuple[Batch, ledger.Listing] | None:
    origin = ends.origin
    origin.execution_options(isolation_level="REPEATABLE READ")
    pushing = traces.traceparent()
    try:
        # With groups of the usual size, each stream gets at least one.
        calls = cut.BATCH_CALLS * max(len(ends.pairs) // 4, 1)
        name = sender.master
        with traces.span("cut", site=sender.name, destination=name) as cutting:
            found = cut.next_batch(
                origin,
                name,
                at,
                calls,
                queues=queues,
                likely=at is ends.seen,
                traceparent=pushing,
            )
            faults.point("push.before_cut_commit")
            origin.commit()
            if found is not None:
                cutting.note(**_numbers(found[0]))
    finally:
        if not origin.invalidated:
            origin.rollback()
            origin.execution_options(isolation_level="READ COMMITTED")
    return found
