"""The state of sites: queues, refreshes, errors, schedules, and work that runs now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, func, select

from deferred import runs, schedules
from deferred.error_catalog import error_transaction
from deferred.queues.backlog import Backlog, backlogs
from masters.analysis.records import resolved_by_method
from masters.catalog import registered_snapshot
from masters.numbers.left import Numbers, leased
from sites import Site
from sites.activity import running
from sites.catalog import activity
from sites.errors import SnaptideError
from snapshots import catalog
from snaptide import revisions, totals
from snaptide.asking import asking
from snaptide.doctor import different, stopped
from snaptide.doctor.finding import Finding
from snaptide.errors import DatabaseError, NotPermitted
from snaptide.lag import Lag, lag_of
from snaptide.totals import StepTimes

_IN_DOUBT = sa.text(
    "SELECT count(*) FROM pg_prepared_xacts"
    " WHERE database = current_database() AND gid LIKE 'snaptide:%'"
)
#: As `snapshots.check.saved` finds them; that would import all that a check needs.
_UNEXPLAINED = sa.text(
    "SELECT sum((counted ->> 2)::bigint) FROM ("
    "SELECT DISTINCT ON (snapshot) counts FROM snaptide.check_snapshot"
    " ORDER BY snapshot, run_id DESC) AS last, jsonb_array_elements(counts) AS counted"
    " WHERE counted ->> 1 = 'unexplained'"
)
_LOG_BYTES = sa.text(
    "SELECT sum(pg_total_relation_size(part.relid)) FROM snaptide.snapshot_log AS log,"
    " pg_partition_tree(to_regclass(format('snaptide.%I', log.log_table))) AS part"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """The state of a refresh group."""

    name: str
    master: str
    snapshots: int
    refreshed_at: datetime | None
    #: seconds since then, by the site's clock
    age: float | None
    last_error: str | None
    #: rows that the last refresh left alone, by what holds them back
    held_back: Mapping[str, int]
    #: how many rows all refreshes have inserted, updated, deleted and held back
    rows: Mapping[str, int]
    #: how long their steps took
    steps: tuple[StepTimes, ...]
    #: None when the master cannot say
    lag: Lag | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """The transactions in an error queue that were parked for one reason."""

    reason: str
    transactions: int
    oldest: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A site whose snapshots are refreshed from this one, and keep its logs long."""

    site: str
    #: the oldest of the last refreshes of its snapshots; None before the first
    refreshed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """A schedule, and whether it runs on time."""

    kind: str
    subject: str
    interval: str
    next_at: datetime
    disabled: bool
    #: seconds past its time; 0 when it is not late
    overdue: float
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Work that runs right now."""

    kind: str
    subject: str
    done: int
    total: int | None
    unit: str
    started_at: datetime
    #: units a second; None until one is done
    rate: float | None
    #: units that are left, and the seconds that they will take; None if unknown
    rest: int | None
    remaining: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteStatus:
    """The state of a site; only the first three fields are filled if it is away."""

    site: str
    reachable: bool
    #: why the site cannot be asked
    error: str | None = None
    revision: str | None = None
    #: the revision that this program needs
    head: str | None = None
    now: datetime | None = None
    backlog: tuple[Backlog, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    #: transactions in this site's own error queue
    parked: int = 0
    #: the same, by reason
    parked_for: tuple[Parked, ...] = ()
    #: coordinated transactions that are prepared here and not ended
    in_doubt: int = 0
    #: the size of all snapshot logs here, and the sites for which they are kept
    log_bytes: int = 0
    readers: tuple[Reader, ...] = ()
    #: rows that the last saved check of each snapshot could not explain
    unexplained: int = 0
    #: by destination, how many transactions pushes have brought there
    delivered: Mapping[str, int] = field(default_factory=dict)
    #: by method, how many conflicts rules have resolved here
    resolved: Mapping[str, int] = field(default_factory=dict)
    schedules: tuple[ScheduleStatus, ...] = ()
    activities: tuple[Activity, ...] = ()
    #: the columns whose numbers the site has leased
    numbers: tuple[Numbers, ...] = ()
    #: work that has stopped and should run; `snaptide doctor` reports it, too
    findings: tuple[Finding, ...] = ()


def status(sites: Sequence[Site], *, alone: bool = False) -> list[SiteStatus]:
    """Ask all sites at once, so that a site that is away does not delay the others.

    Parameters:
        alone: each is asked only about itself, see `status_of`.
    """
    if not sites:
        return []
    with ThreadPoolExecutor(max_workers=len(sites)) as pool:
        return list(pool.map(partial(status_of, alone=alone), sites))


def status_of(site: Site, *, alone: bool = False) -> SiteStatus:
    """Ask one site; an error becomes part of the status.

    Parameters:
        alone: ask no other site, so that one that is away delays nothing: the lag of
            groups is then unknown, and masters are not compared.
    """
    try:
        with asking(site) as connection:
            return _status(connection, site, alone)
    except (NotPermitted, DatabaseError) as error:
        return SiteStatus(site=site.name, reachable=True, error=error.message)
    except SnaptideError as error:
        return SiteStatus(site=site.name, reachable=False, error=error.message)


def _status(connection: Connection, site: Site, alone: bool) -> SiteStatus:
    revision, head = revisions.of_site(connection), revisions.head()
    if revision != head:
        error = _other_schema(revision)
        return SiteStatus(
            site=site.name, reachable=True, error=error, revision=revision, head=head
        )
    now = connection.execute(select(func.now())).scalar_one()
    parked = tuple(_parked(connection))
    return SiteStatus(
        site=site.name,
        reachable=True,
        revision=revision,
        head=head,
        now=now,
        backlog=tuple(backlogs(connection)),
        groups=tuple(_groups(connection, site, now, alone)),
        parked=sum(one.transactions for one in parked),
        parked_for=parked,
        in_doubt=connection.scalar(_IN_DOUBT) or 0,
        log_bytes=int(connection.scalar(_LOG_BYTES) or 0),
        readers=tuple(_readers(connection)),
        unexplained=int(connection.scalar(_UNEXPLAINED) or 0),
        delivered=totals.delivered(connection),
        resolved=resolved_by_method(connection),
        schedules=tuple(_schedules(connection, now)),
        activities=tuple(_activities(connection)),
        numbers=tuple(leased(connection)),
        findings=(
            *stopped.check(connection, site.name),
            *(() if alone else different.check(site, tables=False)),
        ),
    )


def _other_schema(revision: str | None) -> str:
    if revision is None:
        return "It has no schema yet."
    if revisions.is_newer(revision):
        return "Its schema was made by a newer version of Snaptide."
    return "Its schema has an older version."


def _groups(
    connection: Connection, site: Site, now: datetime, alone: bool
) -> list[GroupStatus]:
    group, snapshot = catalog.refresh_group, catalog.snapshot
    members = (
        select(func.count())
        .where(snapshot.c.refresh_group == group.c.name)
        .scalar_subquery()
    )
    wanted: sa.Select[Any] = select(
        *(group.c[name] for name in _OF_GROUP),
        sa.cast(group.c.position, sa.Text).label("seen"),
        members.label("snapshots"),
    )
    rows = connection.execute(wanted.order_by(group.c.name)).all()
    steps = totals.step_times(connection)
    return [
        _group(connection, site, row, now, alone, steps.get(row.name, ()))
        for row in rows
    ]


#: By what was done with rows, the column that counts them.
_ROWS = {
    "inserted": "rows_inserted",
    "updated": "rows_updated",
    "deleted": "rows_deleted",
    "held_back": "rows_held_back",
}
_OF_GROUP = (
    *("name", "master", "refreshed_at", "last_error", "held_back"),
    *_ROWS.values(),
)


def _group(
    connection: Connection,
    site: Site,
    row: Row[Any],
    now: datetime,
    alone: bool,
    steps: tuple[StepTimes, ...],
) -> GroupStatus:
    age = (now - row.refreshed_at).total_seconds() if row.refreshed_at else None
    return GroupStatus(
        name=row.name,
        master=row.master,
        snapshots=row.snapshots,
        refreshed_at=row.refreshed_at,
        age=age,
        last_error=row.last_error,
        held_back=row.held_back,
        rows={kind: getattr(row, column) for kind, column in _ROWS.items()},
        steps=steps,
        lag=None if alone else lag_of(connection, site, row),
    )


def _parked(connection: Connection) -> Iterator[Parked]:
    at = error_transaction.c
    counted = select(
        at.reason,
        func.count().label("transactions"),
        func.min(at.parked_at).label("oldest"),
    )
    for row in connection.execute(counted.group_by(at.reason).order_by(at.reason)):
        yield Parked(**row._mapping)


def _readers(connection: Connection) -> Iterator[Reader]:
    at = registered_snapshot.c
    wanted = select(at.site_name, func.min(at.refreshed_at).label("refreshed_at"))
    for row in connection.execute(wanted.group_by(at.site_name).order_by(at.site_name)):
        yield Reader(site=row.site_name, refreshed_at=row.refreshed_at)


def _schedules(connection: Connection, now: datetime) -> Iterator[ScheduleStatus]:
    late = {(o.kind, o.subject): o.since for o in runs.overdue(connection)}
    for found in schedules.all_of(connection):
        since = late.get((found.kind, found.subject), now)
        yield ScheduleStatus(
            kind=found.kind,
            subject=found.subject,
            interval=found.interval,
            next_at=found.next_at,
            disabled=found.disabled,
            overdue=(now - since).total_seconds(),
            last_error=found.last_error,
        )


def _activities(connection: Connection) -> list[Activity]:
    told = ("kind", "subject", "done", "total", "unit", "started_at", "rate")
    columns = [activity.c[name] for name in told]
    rows = connection.execute(select(*columns).where(running()).order_by("started_at"))
    return [_activity(row) for row in rows]


def _activity(row: Row[Any]) -> Activity:
    rest = None if row.total is None else max(row.total - row.done, 0)
    known = rest is not None and row.rate
    return Activity(
        **row._mapping, rest=rest, remaining=rest / row.rate if known else None
    )
