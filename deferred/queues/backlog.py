"""What a site still has to push: for workers that start pushes, and for operators.

It is a hint: the truth about a transaction is the destination's marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select

from deferred.catalog import (
    batch,
    deferred_transaction,
    delivery,
    delivery_row,
    destination,
    schedule,
)
from deferred.errors import NoSuchDestination
from deferred.queues import destination_state
from deferred.queues.destination_state import DestinationState
from deferred.queues.queue import Queue, call_numbers_of, goes_to, list_queues
from sites import Site
from sites.capture import position
from sites.catalog import SCHEMA
from sites.sessions import identity
from sites.sessions.prepared import Prepared

#: Workers leave a destination that failed alone for at most so many seconds.
LONGEST_PAUSE = 60

#: A queue with no more transactions than that may be pushed by a worker that listens.
FEW = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits at a site for one destination, as the view `defbacklog` counts it."""

    destination: str
    #: why nothing is pushed to it; none if it is open
    states: tuple[DestinationState, ...]
    #: transactions that the destination has not answered, as far as known
    transactions: int
    calls: int
    #: size of those calls, as the database stores them
    bytes: int
    #: when the oldest of the transactions was begun
    oldest: datetime | None
    #: the budget: more than that makes the destination invalid; None is no limit
    max_lag_age: timedelta | None
    max_lag_bytes: int | None
    #: when a worker tries again after a failure; None if nothing failed
    retry_at: datetime | None
    last_push_at: datetime | None
    last_txn_count: int | None
    last_error: str | None
    last_error_at: datetime | None

    @property
    def standing(self) -> str:
        """Why nothing is pushed to it, or the last error, in a few words."""
        said = "; ".join(f"{state.state}: {state.reason}" for state in self.states)
        return said or self.last_error or ""


VIEW = sa.table("defbacklog", *map(sa.column, Backlog.__slots__), schema=SCHEMA)
#: The destinations for which something is queued here.
EVERY = select(VIEW).where(goes_to(VIEW.c.destination)).order_by("destination")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits for a destination, for those that decide who pushes it."""

    #: the last push; None before the first
    pushed_at: datetime | None
    #: more than `FEW` transactions wait
    many: bool
    #: the schedule of this push waits for an answer, or shows an error
    noted: bool


def waiting_destinations(connection: Connection) -> dict[str, Waiting]:
    """Destinations that have waiting transactions and may be tried now, by name.

    Left out are those that are disabled, invalid, about to join a group, or have failed
    a moment ago.
    """
    rows = _WAITING.run_apart(connection).all()
    return {
        row.name: Waiting(
            pushed_at=row.last_push_at,
            many=row.transactions > FEW,
            noted=row.noted,
        )
        for row in rows
        if row.transactions
    }


def resting(connection: Connection) -> set[str]:
    """Destinations that failed a moment ago, and are left alone for a while."""
    return set(_RESTING.run(connection).scalars())


def backlogs(connection: Connection) -> list[Backlog]:
    """What waits for each destination, by name. Reads the whole queue."""
    return [of_row(row._asdict()) for row in connection.execute(EVERY)]


def backlog_of(connection: Connection, name: str) -> Backlog:
    """What waits for one destination.

    Raises:
        NoSuchDestination: nothing here is queued for it.
    """
    row = connection.execute(
        select(VIEW).where(VIEW.c.destination == name)
    ).one_or_none()
    if row is None:
        raise NoSuchDestination(
            f"Nothing is queued here for {name!r}.", destination=name
        )
    return of_row(row._asdict())


def calls_left(connection: Connection, name: str, queues: Sequence[Queue]) -> int:
    """How many calls the next pushes will carry, counted by indexes.

    Parameters:
        queues: all queues that go to this destination.
    """
    return int(_left(tuple(queues), name).run(connection).scalar_one())


def oldest_left(connection: Connection, name: str) -> int | None:
    """The order number of the oldest transaction that a destination has not answered.

    Transactions draw these numbers as they commit. None if nothing waits.
    """
    queues = list_queues(connection, name)
    found: int | None = connection.scalar(_oldest(tuple(queues), name))
    return found


def _oldest(queues: tuple[Queue, ...], name: str) -> sa.Select[Any]:
    """Select the lowest number of those in the window, and of those queued since."""
    seen, *its_batch = _last_window(name)
    firsts = [
        select(func.min(of.c.order_no)).where(where)
        for of, where in _cut(name, *its_batch)
    ]
    for one in call_numbers_of(queues, name):
        calls = one.where(position.since(one.selected_columns.xid, seen)).subquery()
        of = deferred_transaction.join(calls, calls.c.xid == deferred_transaction.c.xid)
        its = select(func.min(deferred_transaction.c.order_no)).select_from(of)
        # One that is about to commit has 0, until it draws its number.
        firsts.append(its.where(deferred_transaction.c.order_no > 0))
    return select(func.least(*(first.scalar_subquery() for first in firsts)))


@lru_cache(maxsize=64)
def _left(queues: tuple[Queue, ...], name: str) -> Prepared:
    seen, *its_batch = _last_window(name)
    cut = [
        select(func.sum(of.c.calls)).where(where)
        for of, where in _cut(name, *its_batch)
    ]
    new = [
        select(func.count()).select_from(
            one.where(position.since(one.selected_columns.xid, seen)).subquery()
        )
        for one in call_numbers_of(queues, name)
    ]
    counts = (func.coalesce(one.scalar_subquery(), 0) for one in (*cut, *new))
    return Prepared(select(sum(counts, start=sa.literal(0))))


def _last_window(
    name: str,
) -> tuple[ColumnElement[str], ColumnElement[int], ColumnElement[int]]:
    """The end of the last window of a destination, and its batch: number and end."""
    at = destination.alias("at")
    mine = select(at).where(at.c.name == name)
    seen = mine.with_only_columns(sa.cast(at.c.window_end, sa.Text))
    batch_no = mine.with_only_columns(at.c.batch_no)
    end = mine.with_only_columns(at.c.batch_end)
    return seen.scalar_subquery(), batch_no.scalar_subquery(), end.scalar_subquery()


def list_destinations(site: Site) -> list[Backlog]:
    """The backlog and the state of each destination of a site."""
    with identity.initialised(site) as connection:
        return backlogs(connection)


def set_disabled(site: Site, name: str, *, disabled: bool) -> Backlog:
    """Pause the pushes to a destination, or let them go on (Oracle: SET_DISABLED).

    Raises:
        NoSuchDestination: nothing here is queued for it.
    """
    with identity.initialised(site) as connection:
        if disabled:
            destination_state.disable(connection, "by hand", name)
        else:
            destination_state.enable(connection, name)
        return backlog_of(connection, name)


def of_row(row: Mapping[str, Any]) -> Backlog:
    """What a row of the view says."""
    states = tuple(
        DestinationState(**{**one, "since": datetime.fromisoformat(one["since"])})
        for one in row["states"]
    )
    return Backlog(**{**row, "states": states})


def _open() -> ColumnElement[bool]:
    """Whether a destination may be tried."""
    return sa.and_(
        destination_state.is_open(),
        sa.not_(func.coalesce(_rests(), sa.false())),
    )


def _rests() -> ColumnElement[bool]:
    """Whether a destination failed a moment ago.

    A pause that ends later than the longest possible one is ignored: then a clock was
    set back.
    """
    now, longest = func.clock_timestamp(), timedelta(seconds=LONGEST_PAUSE)
    return sa.and_(
        destination.c.retry_at > now,
        destination.c.retry_at <= now + sa.literal(longest, sa.Interval),
    )


_RESTING = Prepared(select(destination.c.name).where(_rests()))


def _cut(
    name: str | ColumnElement[str],
    batch_no: int | ColumnElement[int],
    batch_end: int | ColumnElement[int],
) -> list[tuple[sa.FromClause, ColumnElement[bool]]]:
    """Unanswered transactions of the window: those in no batch, and in the newest one.

    What is answered of that batch is read first, by itself: so an index finds them,
    however many were delivered, and however many batches there are. If it is answered
    to its end, its transactions are not looked at.

    Returns:
        For each of the two, where they are, and the condition that selects them.
    """
    newest = batch.c.destination == name, batch.c.number == batch_no
    answered = select(batch.c.answered).where(*newest).correlate(destination)
    upto, row = answered.scalar_subquery(), delivery_row.c
    return [
        (delivery_row, sa.and_(row.destination == name, row.batch.is_(None))),
        (
            delivery,
            sa.and_(
                delivery.c.destination == name,
                delivery.c.batch == batch_no,
                delivery.c.order_no > upto,
                batch_end > upto,
            ),
        ),
    ]


def _up_to_few(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
    """How many rows meet conditions on a destination, counted up to `FEW` and one."""
    # Not as a parameter: the server would plan for another number at each run.
    most = sa.literal_column(str(FEW + 1), sa.Integer)
    found: sa.Select[Any] = (
        select(sa.literal_column("1")).where(*conditions).limit(most)
    )
    return (
        select(func.count())
        .select_from(found.correlate(destination).subquery())
        .scalar_subquery()
    )


#: Transactions of the next window may not go to this destination. They are counted in
#: two parts, because a scan for either would read the whole queue. Those that were open
#: when the last window ended are few: each had a session.
_WAITING = Prepared(
    select(
        destination.c.name,
        destination.c.last_push_at,
        (
            sum(
                _up_to_few(where)
                for _, where in _cut(
                    destination.c.name,
                    destination.c.batch_no,
                    destination.c.batch_end,
                )
            )
            + _up_to_few(
                position.begun_since(
                    deferred_transaction.c.xid, destination.c.window_end
                )
            )
            + select(func.count())
            .select_from(deferred_transaction)
            .where(
                position.open_at(deferred_transaction.c.xid, destination.c.window_end)
            )
            .scalar_subquery()
        ).label("transactions"),
        sa.exists()
        .where(
            schedule.c.kind == "push",
            schedule.c.subject == destination.c.name,
            sa.or_(
                schedule.c.last_error.is_not(None), schedule.c.asked_at.is_not(None)
            ),
        )
        .label("noted"),
    )
    .where(_open())
    .order_by(destination.c.name)
)
