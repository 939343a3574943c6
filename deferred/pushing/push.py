"""Push: carry the deferred transactions of a site to a destination, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Unpack

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.exc import DataError, DBAPIError

from deferred import sqlstate
from deferred.batches import marker, reconcile, relay
from deferred.batches.provenance import Sender
from deferred.batches.pusher import RELEASED, TRIED, Turn, turns
from deferred.catalog import destination
from deferred.errors import (
    DestinationQuiet,
    NoSuchDestination,
    PushInterrupted,
    TooManyErrors,
)
from deferred.options import ErrorAction, PushArguments, PushOptions
from deferred.parked import error_queue, notification
from deferred.pushing import streams
from deferred.pushing.batch_by_batch import Ends, push_all
from deferred.pushing.report import PushReport, Token
from deferred.pushing.run import Run
from deferred.queues import budget, destination_state, queue, unqueued
from masters.numbers import columns, contact
from sites import Site, configured, retry, traces
from sites.capture import position
from sites.errors import NoConnectionFree, NotGranted, SnaptideError
from sites.progress import Progress
from sites.sessions import contacts, identity
from sites.sessions.peers import Look
from sites.sessions.prepared import Prepared, as_json
from sites.sessions.site import autocommit
from sites.words import counted, does

#: A push of a small queue leaves a batch with more calls to another push.
SMALL = 1_000


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
        NotGranted: the destination lets this site read, and change nothing.
        NoSuchDestination, DestinationDisabled, DestinationInvalid, PositionMismatch.
        DestinationJoins: it becomes a master, and does not have all rows yet.
        ChangesNotQueued: a trigger that queues changes is missing or off.
        SiteChanged, SiteRestored, SiteReplaced: one side has to be repaired first.
        OlderSchema, NewerSchema: another version of Snaptide made the schema of a side.
        PastRetention, CannotTell: a restore went back too far.
        OtherSchemaVersion: one side lacks DDL of a replication group.
        PushInterrupted: the system failed on the way; the rest stays queued.
        TransactionRefused: one could not be applied, and `error_action` is stop.
        TooManyErrors: the destination has parked as many as `error_limit` allows.
    """
    chosen = PushOptions.of({**configured.push_options(), **options})
    return _push_as(
        site, destination, Run(options=chosen, progress=progress, stop=stop)
    )


def push_small(site: Site, destination: str, *, stop: Callable[[], bool]) -> PushReport:
    """Push a queue in which little waits, for a caller that has other sites to serve.

    A batch with more than `SMALL` calls is left to another push; then, and if it was
    told to stop, the report says that it is unfinished.

    Parameters:
        stop: when it returns True, the push ends between two commits.

    Raises:
        as `push` does.
    """
    chosen = PushOptions.of({**configured.push_options(), "parallelism": 0})
    return _push_as(site, destination, Run(options=chosen, stop=stop, most_calls=SMALL))


def _push_as(site: Site, destination: str | None, run: Run) -> PushReport:
    """Push as a run has it."""
    with traces.span("push", site=site.name, destination=destination) as span:
        try:
            name, alone = _push_in_turn(site, destination, run, span)
        finally:
            span.note(
                transactions=run.transactions,
                calls=run.calls,
                parked=len(run.error_ids),
                resolved=run.resolved,
                held_back=run.held_back,
            )
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
        unfinished=run.unfinished,
        token=None if run.token is None else str(run.token),
    )


def _push_in_turn(
    site: Site, asked: str | None, run: Run, span: traces.Running
) -> tuple[str, bool]:
    """Push if no other pusher is at work; the destination, and whether it was so."""
    with site.session() as origin, turns(origin) as turn:
        with autocommit(origin):
            here = _look(origin, site, asked)
            to = _destination(origin, here, asked)
        name = turn.name = to.name
        turn.held = bool(here.row.turn)
        span.note(destination=name)
        if not turn.held:
            return name, False
        if to.concerned:
            run.relay = relay.of_groups()
        run.numbered = to.numbered
        try:
            if to.unqueued:
                unqueued.refuse(origin, to.unqueued)
            # If the destination's sessions have outdated plans, in new ones.
            retry.in_new_sessions(
                site.peer(name).release,
                lambda: _push(origin, site, here, name, run),
                lambda: run.transactions,
            )
        except SnaptideError as error:
            is_failure = not isinstance(error, NoConnectionFree)
            reason = error.message if is_failure else None
            _note_failure(origin, name, run.transactions, reason)
            if isinstance(error, DestinationQuiet | TooManyErrors):
                _keep_quiet(origin, name, error)
            raise
        except DBAPIError as error:
            raise _interrupted(origin, name, error, run.transactions) from error
        _note_success(origin, turn, run.transactions)
        return name, True


def _look(origin: Connection, site: Site, asked: str | None) -> Look:
    """Ask who the site is and where it pushes, and try the lock of a destination."""
    look = partial(reconcile.look, origin, site.name, (_DESTINATIONS, TRIED))
    try:
        return look(pushed_to=asked)
    except (DataError, UnicodeEncodeError):
        # The name is no text of this database, so nothing is queued for it.
        return look(pushed_to=None)


def destinations(site: Site) -> list[str]:
    """The destinations that a site's queues go to, by name."""
    name = destination.c.name
    with identity.initialised(site) as connection:
        used = select(name).where(queue.goes_to(name))
        return list(connection.scalars(used.order_by(name)))


def _push(origin: Connection, site: Site, here: Look, name: str, run: Run) -> None:
    origin.rollback()
    who = Sender(id=here.identity.site_id, name=site.name, master=name)
    with site.peer(name).session() as target:
        with autocommit(target):
            there = reconcile.look_there(target, name, here.identity, also=_ALSO)
        if not there.row.may_push:
            raise NotGranted(
                f"{name} grants {site.name} nothing that it may change: that takes a "
                "grant with --updatable.",
                site=site.name,
            )
        pair = reconcile.confirm(origin, target, here, there)
        if not reconcile.has_agreed(here, there.identity):
            # To agree, it has waited for what another push was just applying.
            with autocommit(target):
                there = reconcile.look_there(target, name, here.identity, also=_ALSO)
        if run.numbered:
            contact.keep_supplied(origin, target, pair)
        if there.row.concerned:
            run.relay = relay.of_groups()
        run.meet = partial(contacts.meet, origin, target, pair)
        if run.options.error_limit:
            run.parked = error_queue.count_failed(target, who.id)
            target.commit()
        beside = (
            streams.opened(site, site.peer(name), run.options.parallelism)
            if run.options.parallel
            else nullcontext(())
        )
        with beside as pairs:
            at = marker.seen(there.row.marker)
            ends = Ends(origin=origin, target=target, pairs=pairs, seen=at)
            push_all(ends, who, run)
        if run.most_calls is None:
            run.token = _token(target, there, run)
        if there.row.may_tell and (there.row.untold or run.error_ids):
            notification.announce(target, name, who.id)
    if run.too_many_errors:
        parked = run.parked + len(run.error_ids)
        raise TooManyErrors(
            f"{counted(parked, 'transaction')} of {site.name} "
            f"{does(parked, 'are')} parked at {name}.",
            transactions=parked,
            destination=name,
            action=ErrorAction.QUIET_SERVER.value,
        )


def _token(target: Connection, there: Look, run: Run) -> Token:
    """The token of what is pushed; only a push that brought something asks for it.

    A push for a listening worker has none: nobody would see it, and it costs a round
    trip.
    """
    at = there.row.position
    if run.met:
        with autocommit(target):
            at = position.current(target)
    return Token(
        master=there.identity.name, incarnation=there.identity.incarnation, position=at
    )


#: What a push asks its destination besides who it is. All that it answered before
#: was committed there at the position.
_ALSO = (
    notification.UNTOLD,
    position.CURRENT,
    # A login of a publication pushes only if its grant is updatable, and reports no
    # conflicts to hooks.
    func.has_any_column_privilege("snaptide.push_batch", "INSERT").label("may_push"),
    func.has_column_privilege("snaptide.error_transaction", "told_at", "UPDATE").label(
        "may_tell"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Destination:
    """A destination, as the push asks for all of them."""

    name: str
    states: Sequence[str]
    #: its budget has a limit
    limited: bool
    #: the site is in a replication group
    concerned: bool
    #: columns of the site draw numbers that it leases
    numbered: bool
    #: snapshots with changes to it that no trigger queues
    unqueued: Sequence[str] | None


def _destination(connection: Connection, here: Look, name: str | None) -> _Destination:
    known = {row["name"]: _Destination(**row) for row in here.row.destinations or ()}
    if name is None and len(known) == 1:
        name = next(iter(known))
    if name is None or name not in known:
        others = ", ".join(sorted(known)) or "none"
        asked = f"Nothing is queued here for {name!r}" if name else "Name a destination"
        raise NoSuchDestination(f"{asked} (known: {others}).", destination=name)
    found = known[name]
    if found.states:
        destination_state.refuse_closed(connection, name)
    if found.limited:
        budget.judge(connection, name, excused="excused" in found.states)
    return found


_DESTINATIONS = as_json(
    select(
        destination.c.name,
        destination_state.names_of_states().label("states"),
        budget.is_limited().label("limited"),
        relay.CONCERNED.label("concerned"),
        columns.draws_from(destination.c.name).label("numbered"),
        unqueued.snapshots_of(destination.c.name).label("unqueued"),
    ),
    "destinations",
)


def _interrupted(
    origin: Connection, name: str, error: DBAPIError, transactions: int
) -> PushInterrupted:
    """Note the system's error that stopped a push; returns ours, to raise.

    Parameters:
        transactions: how many it had brought.
    """
    reason = sqlstate.message(error)
    _note_failure(origin, name, transactions, reason)
    return PushInterrupted(
        f"The push to {name} stopped: {reason}",
        destination=name,
        sqlstate=sqlstate.of(error),
    )


def _note_success(origin: Connection, turn: Turn, transactions: int) -> None:
    """Note that a push ended well, and how many transactions it brought; end its turn.

    The next push may begin a moment before the commit. If it comes to the destination's
    row before, PostgreSQL has it begin that step again (40001).
    """
    values = {"pushed_to": turn.name, "brought": transactions}
    origin.rollback()
    if _ENDED_WELL.run_apart(origin, **values).scalar():
        turn.held = False


def _note_failure(
    origin: Connection, name: str, transactions: int, reason: str | None
) -> None:
    """Note why a push failed, and pause the next ones as the budget has it.

    Parameters:
        transactions: how many it had brought.
        reason: None if it only came to no connection, which is no failure to show.
    """
    if not origin.invalidated:
        origin.rollback()
        said = {"last_error": reason, "last_error_at": func.now()} if reason else {}
        noted = _noting(
            name,
            **said,
            delivered=destination.c.delivered + transactions,
            **budget.pause(),
        )
        # A site that takes no note, as its disk is full, does not hide why it failed.
        with suppress(DBAPIError), origin.begin():
            origin.execute(noted)


def _keep_quiet(
    origin: Connection, name: str, error: DestinationQuiet | TooManyErrors
) -> None:
    """Disable pushes to this destination, or to all, until an operator enables them."""
    all_of_them = error.facts["action"] == ErrorAction.QUIET_SERVER
    with origin.begin():
        destination_state.disable(origin, error.message, None if all_of_them else name)


def _noting(name: str | ColumnElement[str], **values: object) -> sa.Update:
    return sa.update(destination).where(destination.c.name == name).values(values)


_BROUGHT = sa.bindparam("brought", type_=sa.BigInteger)
_ENDED_WELL = Prepared(
    _noting(
        sa.bindparam("pushed_to", type_=sa.Text),
        last_push_at=func.now(),
        last_txn_count=_BROUGHT,
        delivered=destination.c.delivered + _BROUGHT,
        last_error=None,
        **budget.GOES_ON,
    ).returning(RELEASED)
)
