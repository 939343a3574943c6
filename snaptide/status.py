"""The state of sites: queues, refreshes, errors, schedules, and work that runs now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from deferred.queues.backlog import Backlog
from masters.numbers.left import Numbers
from sites import QualifiedName, Site
from sites.errors import (
    OtherSchema,
    SiteNotInitialised,
    SiteUnreachable,
    SnaptideError,
)
from sites.sessions import revisions
from sites.sessions.site import autocommit
from snaptide import for_sites, reading, totals
from snaptide.asking import asking
from snaptide.doctor import different, stopped
from snaptide.doctor.finding import Finding
from snaptide.errors import DatabaseError, NotPermitted
from snaptide.for_sites import ImageStatus, PublicationStatus
from snaptide.lag import Lag, lag_of, old_at_end
from snaptide.reading import AnswerStatus, Reading, Row
from snaptide.totals import StepTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBehind:
    """A snapshot that the last refresh of its group left at the moment it showed."""

    snapshot: str
    #: when a refresh brought that moment; None if it was never filled
    refreshed_at: datetime | None
    #: with the code, and what to do
    why: str
    todo: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """The state of a refresh group."""

    name: str
    master: str
    snapshots: int
    refreshed_at: datetime | None
    #: seconds since the master's moment that the group shows, by the site's clock
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
    #: by snapshot, the way of its last refresh, and its cost (`snapshots.WayTaken`)
    ways: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    #: its snapshots that show an earlier moment
    behind: tuple[SnapshotBehind, ...] = ()


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
class ContractStatus:
    """A contract that the site keeps as a master (`masters.contracts`)."""

    site: str
    group: str
    #: kept, late, broken or released, since when, and why
    state: str
    since: datetime
    reason: str | None
    #: seconds since the oldest change was made that the group does not show
    age: float | None


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
    #: how long the site took to say it
    seconds: float = 0.0
    backlog: tuple[Backlog, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    #: transactions in this site's own error queue
    parked: int = 0
    #: the same, by reason
    parked_for: tuple[Parked, ...] = ()
    #: coordinated transactions that are prepared here and not ended
    in_doubt: int = 0
    #: the size of all snapshot logs here, when the oldest change was made that they
    #: keep, and the sites for which they are kept
    log_bytes: int = 0
    log_oldest: datetime | None = None
    readers: tuple[Reader, ...] = ()
    contracts: tuple[ContractStatus, ...] = ()
    publications: tuple[PublicationStatus, ...] = ()
    images: tuple[ImageStatus, ...] = ()
    #: what its own masters have promised it
    answers: tuple[AnswerStatus, ...] = ()
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

    @property
    def queued(self) -> int:
        """How many transactions wait, for whichever destination."""
        return sum(one.transactions for one in self.backlog)

    @property
    def waited(self) -> float | None:
        """How long the oldest change has waited that no destination has answered."""
        return self.since(
            min((q.oldest for q in self.backlog if q.oldest), default=None)
        )

    def since(self, moment: datetime | None) -> float | None:
        """Seconds since a moment, by the site's clock; None if it never was."""
        if self.now is None or moment is None:
            return None
        return max((self.now - moment).total_seconds(), 0.0)


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
        return _asked(site, alone)
    except (NotPermitted, DatabaseError) as error:
        return SiteStatus(site=site.name, reachable=True, error=error.message)
    except SnaptideError as error:
        return SiteStatus(site=site.name, reachable=False, error=error.message)


def _asked(site: Site, alone: bool) -> SiteStatus:
    head = revisions.head()
    try:
        with asking(site) as connection, autocommit(connection):
            found = reading.read(connection)
            if found.revision == head:
                return _status(connection, site, found, alone)
            revision = found.revision
    except DatabaseError:
        with asking(site) as connection:
            revision = revisions.of_site(connection)
        if revision == head:
            raise
    return SiteStatus(
        site=site.name,
        reachable=True,
        error=_other_schema(site.name, revision),
        revision=revision,
        head=head,
    )


def _status(
    connection: Connection, site: Site, found: Reading, alone: bool
) -> SiteStatus:
    parked = tuple(Parked(**vars(row)) for row in found.parked)
    return SiteStatus(
        site=site.name,
        reachable=True,
        revision=found.revision,
        head=found.revision,
        now=found.now,
        seconds=found.seconds,
        backlog=tuple(found.backlog),
        groups=tuple(_groups(connection, site, found, alone)),
        parked=sum(one.transactions for one in parked),
        parked_for=parked,
        in_doubt=found.in_doubt,
        log_bytes=found.log_bytes,
        log_oldest=found.log_oldest,
        readers=tuple(
            Reader(site=row.site_name, refreshed_at=row.refreshed_at)
            for row in found.readers
        ),
        contracts=tuple(map(_contract, found.contracts)),
        publications=tuple(for_sites.publications(found.publications, found.grants)),
        images=tuple(for_sites.images(found.images)),
        answers=tuple(found.answers),
        unexplained=found.unexplained,
        delivered={row.name: row.delivered for row in found.brought},
        resolved=found.resolved,
        schedules=tuple(_schedules(found)),
        activities=tuple(map(_activity, found.activities)),
        numbers=tuple(found.numbers),
        findings=(
            *stopped.check(found, site.name),
            *(() if alone else different.check(site, tables=False)),
        ),
    )


def refuse_unready(status: SiteStatus) -> None:
    """Refuse to go on with a site that could not say how it stands.

    Raises:
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: why it could not.
    """
    if not status.reachable:
        raise SiteUnreachable(status.error)
    if status.error:
        if status.revision is not None:
            revisions.refuse_other(status.site, status.revision)
        raise SiteNotInitialised(status.error)


def _other_schema(site: str, revision: str | None) -> str:
    """What to say of a site whose schema is not the one of this program."""
    if revision is not None:
        try:
            revisions.refuse_other(site, revision)
        except OtherSchema as other:
            return other.message
    return "It has no schema yet."


def _groups(
    connection: Connection, site: Site, found: Reading, alone: bool
) -> Iterator[GroupStatus]:
    steps = totals.step_times(found.step_times)
    for row in found.refresh_groups:
        yield GroupStatus(
            name=row.name,
            master=row.master,
            snapshots=row.snapshots,
            refreshed_at=row.refreshed_at,
            age=_age(row, found.now),
            last_error=row.last_error,
            held_back=row.held_back,
            rows={kind: getattr(row, f"rows_{kind}") for kind in _WRITTEN},
            steps=steps.get(row.name, ()),
            ways=row.ways or {},
            lag=None if alone else lag_of(connection, site, row),
            behind=tuple(_behind(found, row.name)),
        )


def _behind(found: Reading, group: str) -> Iterator[SnapshotBehind]:
    mine = [row for row in found.left_behind if row.refresh_group == group]
    if not mine:
        return
    # Imported late: most sites have none.
    from snapshots.definitions.snapshot import Behind

    for row in mine:
        if why := Behind.of(row.behind):
            yield SnapshotBehind(
                snapshot=str(QualifiedName(row.schema, row.name)),
                refreshed_at=row.refreshed_at,
                why=str(why),
                todo=why.hint,
            )


#: What refreshes do with rows.
_WRITTEN = ("inserted", "updated", "deleted", "held_back")


def _age(row: Row, now: datetime) -> float | None:
    if row.refreshed_at is None:
        return None
    since: float = max((now - row.refreshed_at).total_seconds(), 0.0)
    return since + old_at_end(row.steps or {})


def _contract(row: Row) -> ContractStatus:
    return ContractStatus(
        site=row.site_name,
        group=row.refresh_group,
        state=row.state,
        since=row.since,
        reason=row.reason,
        age=row.age,
    )


def _schedules(found: Reading) -> Iterator[ScheduleStatus]:
    late = {(one.kind, one.subject): one.since for one in found.overdue}
    for row in found.schedules:
        since = late.get((row.kind, row.subject), found.now)
        yield ScheduleStatus(
            kind=row.kind,
            subject=row.subject,
            interval=row.interval,
            next_at=row.next_at,
            disabled=row.disabled,
            overdue=(found.now - since).total_seconds(),
            last_error=row.last_error,
        )


def _activity(row: Row) -> Activity:
    rest = None if row.total is None else max(row.total - row.done, 0)
    known = rest is not None and row.rate
    return Activity(
        **vars(row),
        rest=rest,
        remaining=rest / row.rate if known else None,
    )
