"""The operator's verb: check snapshots of a site against their masters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection
from tenacity import stop_after_attempt

from sites import QualifiedName, extras, retry, traces
from sites.conditions import where
from sites.errors import OtherSchema, SiteUnreachable, SnaptideError
from sites.progress import Progress
from sites.sessions import identity
from sites.sessions.site import Site
from snapshots.check import commit_times, compare, moments, saved, tally
from snapshots.check.errors import CheckRefused
from snapshots.check.report import CheckReport, SnapshotCheck
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.errors import UnknownColumn
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences.window import Member
from snapshots.errors import PositionMoved
from snapshots.refreshing.possible import OF_ONE, concerns

#: How often a check begins anew if refreshes keep coming in between.
ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What of the snapshots is compared."""

    where: str | None
    #: the condition on when rows were written
    written: str | None
    columns: tuple[str, ...]
    most: int
    gentle: bool


def check(
    site: Site,
    what: str | Sequence[str] = (),
    *,
    where: str | None = None,
    columns: Sequence[str] = (),
    since: timedelta | None = None,
    most: int = 1000,
    save: bool = False,
    gently: bool = False,
    progress: Progress | None = None,
) -> CheckReport:
    """Prove that snapshots equal their defining queries, or name what differs and why.

    Users, pushes and refreshes go on meanwhile, and both sides are only read. A
    difference that work under way explains is told with its reason, and any other is
    proven (docs/explanation/proven-equal.md). Oracle: DBMS_RECTIFIER_DIFF.DIFFERENCES,
    which needs quiet tables; Informix: `cdr check replicate`.

    A group whose master does not answer is named in the report, and so is a snapshot
    whose table has changed so that it does not fit; the others are compared.

    Parameters:
        what: refresh groups and snapshots; all of the site if none is given. Each group
            is compared at one moment of its own.
        where: only rows for which this holds at either side; an expression over columns
            of the snapshots, as in SQL.
        columns: compare only these and the key; all if none is given.
        since: only rows that were inserted or updated within this time at either side,
            by the times of their commits; and those whose time is not known. A row that
            one side has deleted is not found, unless the other has written it since.
        most: how many rows of each snapshot are listed; the counts are exact.
        save: keep the report at the site, where `show_check` finds it. The site keeps
            it, because it is about the site's snapshots and stays when they get another
            master. It is written in a transaction that begins when both moments have
            been let go: these only read, and may have been long.
        gently: read in statements of less than a second with rests in between, which
            are longer while the databases are busy. It takes at least twice as long,
            and both moments stay open meanwhile: VACUUM keeps the rows of then, and a
            purge leaves the logs alone.
        progress: is told how many pages of the tables of a group have been read, at
            both sides, and how many there are to read. Those where rows differ are read
            twice, and counted twice. If many rows differ, it is then told how many of
            these have been explained.

    Raises:
        UnknownSnapshot: the site has no group or snapshot of that name.
        UnknownColumn, CheckRefused, BadCondition: `where`, `columns` or `since` is
            wrong.
        NoCommitTimes: a database does not keep the times that `since` asks for.
        SiteUnreachable: the site is away, or the masters of all groups are.
        SiteChanged, SiteRestored, SiteReplaced, MasterChanged: a database was restored
            or replaced.
        OlderSchema, NewerSchema: another version of Snaptide made the schema of a side.
        PositionMoved: refreshes came in between again and again.
        ColumnGone, RowsHidden, KeyNotUnique: a table has changed since its snapshot was
            created, and there is no other snapshot to compare.
        SparkError: Spark did not start, or failed.
        MissingExtra: `snaptide[spark]` is not installed.
    """
    extras.require("spark")
    began, at = time.monotonic(), datetime.now(UTC)
    names = [what] if isinstance(what, str) else list(what)
    written = None if since is None else _written_since(at, since)
    groups = chosen(site, names)
    every = [one for members in groups.values() for one in members]
    wanted = _Wanted(
        where=where,
        written=written,
        columns=known(every, tuple(columns)),
        most=most,
        gentle=gently,
    )
    found, away = _check_groups(site, groups, wanted, progress)
    report = CheckReport(
        site=site.name,
        where=_all_of(where, written),
        columns=tuple(columns),
        most=most,
        snapshots=tuple(found),
        away=away,
        at=at,
        seconds=time.monotonic() - began,
    )
    return saved.save(site, report) if save else report


def chosen(site: Site, named: Sequence[str]) -> dict[str, list[Snapshot]]:
    """The snapshots that are asked for, by group."""
    with site.transaction() as connection:
        identity.confirm(connection, site.name)
        chosen: list[Snapshot] = []
        for name in named:
            if refresh_group.find(connection, name) is not None:
                chosen += snapshot.members(connection, name)
            else:
                chosen.append(snapshot.read(connection, name))
        if not named:
            chosen = snapshot.all_of(connection)
    groups: dict[str, list[Snapshot]] = {}
    for one in {one.key: one for one in chosen}.values():
        groups.setdefault(one.refresh_group, []).append(one)
    return groups


def known(members: Sequence[Snapshot], columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that are asked for, which all of the snapshots must have."""
    for one in members:
        unknown = [name for name in columns if name not in one.columns]
        if unknown:
            raise UnknownColumn(
                f"Snapshot {one.key} has no column {', '.join(unknown)}.",
                snapshot=one.key,
                columns=unknown,
            )
    return columns


def conditions(
    site: Site, group: str, members: Sequence[Snapshot], asked: str | None
) -> dict[str, str]:
    """A condition as the master understands it for each snapshot.

    Both sides evaluate it on the rows that they have, so it may be only about columns
    that both have.
    """
    if asked is None:
        return {}
    found = {}
    with site.transaction() as connection:
        master = refresh_group.find(connection, group)
    assert master is not None
    with site.peer(master.master).transaction() as connection:
        for one in members:
            printed = condition(connection, one.master, asked)
            others = {*printed.columns.get(one.master, ())} - {*one.columns}
            if others:
                raise CheckRefused(
                    f"The condition asks for {', '.join(sorted(others))}, which "
                    f"snapshot {one.key} does not have.",
                    snapshot=one.key,
                )
            found[one.key] = printed.text
    return found


def condition(
    connection: Connection, table: QualifiedName, asked: str
) -> where.Condition:
    """The condition of a check as the database understands it.

    Raises:
        CheckRefused: it asks other tables.
        BadCondition: it is no condition on rows of the table.
    """
    printed = where.canonical(connection, table, asked)
    if printed.parts.subqueries:
        raise CheckRefused("The condition of a check cannot ask other tables.")
    return printed


def _written_since(at: datetime, since: timedelta) -> str:
    """The condition on rows that were written within a time.

    Raises:
        CheckRefused: no row can have been written in it, or the calendar ends.
    """
    if since <= timedelta(0):
        raise CheckRefused("since is a time that has passed: more than 0.")
    try:
        return commit_times.since(at - since)
    except OverflowError:
        raise CheckRefused(f"since is too long: {since.days:,} days.") from None


def _all_of(*conditions: str | None) -> str | None:
    """The condition that all of these hold."""
    given = [one for one in conditions if one is not None]
    if len(given) > 1:
        given = [f"({one})" for one in given]
    return " AND ".join(given) or None


def _check_groups(
    site: Site,
    groups: Mapping[str, Sequence[Snapshot]],
    wanted: _Wanted,
    progress: Progress | None,
) -> tuple[list[SnapshotCheck], dict[str, str]]:
    """Check one group after the other; returns those whose master is away, too.

    A master whose schema another version of Snaptide made counts as away.

    Raises:
        SiteUnreachable, OlderSchema, NewerSchema: no group could be checked.
        one of `OF_ONE`: nothing could be compared, and this is why.
    """
    found: list[SnapshotCheck] = []
    away: dict[str, str] = {}
    unfit: list[SnaptideError] = []
    for group, members in groups.items():
        try:
            found += _check_fitting(site, group, members, wanted, unfit, progress)
        except (SiteUnreachable, OtherSchema) as error:
            if error.facts.get("site") == site.name:
                raise
            away[group] = error.message
            if len(away) == len(groups):
                raise
    if unfit and not any(one.compared for one in found):
        raise unfit[0]
    return found, away


def _check_fitting(
    site: Site,
    group: str,
    asked: Sequence[Snapshot],
    wanted: _Wanted,
    unfit: list[SnaptideError],
    progress: Progress | None,
) -> list[SnapshotCheck]:
    """Check the snapshots of a group that fit their tables.

    Parameters:
        unfit: gets the errors of the others.
    """
    left = list(asked)
    why: dict[str, str] = {}
    found: dict[str, SnapshotCheck] = {}
    while left:
        try:
            found = _check_group(site, group, left, wanted, progress)
            break
        except OF_ONE as error:
            its = [one for one in left if concerns(error, one)]
            if not its:
                raise
            unfit.append(error)
            why |= {one.key: error.message.rstrip(".") for one in its}
            left = [one for one in left if one.key not in why]
    if len(found) < len(asked):
        with site.transaction() as connection:
            its_group = refresh_group.find(connection, group)
        assert its_group is not None
        for one in asked:
            reason = why.get(one.key, "it has not been loaded yet")
            found.setdefault(one.key, _not_compared(one, its_group.master, reason))
    return [found[one.key] for one in asked]


def _check_group(
    site: Site,
    group: str,
    asked: Sequence[Snapshot],
    wanted: _Wanted,
    progress: Progress | None,
) -> dict[str, SnapshotCheck]:
    """Check snapshots of a group at one moment; without those that are not loaded."""
    names = [one.key for one in asked]
    given = conditions(site, group, asked, wanted.where)
    found: dict[str, SnapshotCheck] = {}
    with traces.span("check", site=site.name, group=group) as span:
        for attempt in retry.on(PositionMoved, stop=stop_after_attempt(ATTEMPTS)):
            with attempt, moments.held(site, group, names) as held:
                span.note(master=held.sides.master.site.name)
                if wanted.written is not None:
                    for side in (held.sides.master, held.sides.site):
                        commit_times.require(side.at, side.site.name)
                every = {one.snapshot.key: one for one in held.seen.members}
                members = [
                    _restricted(one, wanted, given.get(name))
                    for name, one in every.items()
                ]
                done = tally.take(
                    held,
                    members,
                    wanted.most,
                    gentle=wanted.gentle,
                    progress=progress,
                )
                for one in done:
                    left_out = _not_carried(every[one.name])
                    found[one.name] = replace(one, not_carried=left_out)
        span.note(
            rows=sum(one.rows_master for one in found.values()),
            differing=sum(c.rows for one in found.values() for c in one.counts),
            unexplained=sum(one.unexplained for one in found.values()),
        )
    return found


def _restricted(member: Member, wanted: _Wanted, given: str | None) -> Member:
    """A snapshot with the rows and columns that are compared.

    Parameters:
        given: the condition that was asked for, as its master prints it.
    """
    member = replace(compare.whole(member), only=_all_of(given, wanted.written))
    if not wanted.columns:
        return member
    keep = {*wanted.columns, *member.snapshot.identity_columns}
    columns = tuple(name for name in member.snapshot.columns if name in keep)
    return replace(member, snapshot=replace(member.snapshot, columns=columns))


def _not_carried(member: Member) -> tuple[str, ...]:
    """Columns of the master table that the snapshot does not have."""
    there = {*member.snapshot.columns}
    return tuple(name for name in member.master.names if name not in there)


def _not_compared(one: Snapshot, master: str, why: str) -> SnapshotCheck:
    return SnapshotCheck(
        name=one.key,
        group=one.refresh_group,
        master=master,
        table=str(one.master),
        position=None,
        moment_here=None,
        moment_master=None,
        rows_master=0,
        rows_here=0,
        counts=(),
        differences=(),
        unproven=why,
    )
