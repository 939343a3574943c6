"""Refresh: bring a group of snapshots to one present moment of its master."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Unpack

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from tenacity import stop_after_attempt, wait_random

import deferred
from deferred import PushReport
from deferred.errors import TargetColumnsMoved
from deferred.options import RefreshArguments, RefreshOptions
from masters.errors import UnknownColumn
from sites import extras, names, retry, traces
from sites.errors import NoConnectionFree, NotGranted, SnaptideError
from sites.progress import Progress
from sites.sessions import full
from sites.sessions.site import Site, autocommit
from snapshots.creating import follow_ddl
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.refresh_notes import PUSH, Steps
from snapshots.errors import (
    DifferentGroups,
    PositionMoved,
    StageLost,
    UsersInTheWay,
)
from snapshots.refreshing import possible, taken_back, task
from snapshots.reports import LeftBehind, RefreshReport, SnapshotReport

#: Turns before a refresh gives up, if another one keeps coming in between.
ATTEMPTS = 3

#: Seconds until the next turn begins, at most.
PAUSE = 0.2


def refresh(
    site: Site,
    what: str | Sequence[str],
    *,
    progress: Progress | None = None,
    **options: Unpack[RefreshArguments],
) -> RefreshReport:
    """Refresh a group of snapshots (Oracle: DBMS_SNAPSHOT.REFRESH, DBMS_REFRESH).

    All snapshots of the group come to one moment of the master. One that cannot be
    refreshed is left behind at the moment that it shows, with the snapshots that
    depend on it or that it depends on: by foreign keys, or because a condition asks
    for its rows. So is one whose changes still wait because the push before was
    refused for the columns of a table. The report names them, with the reason, and so
    does the catalog until they come along again. If `strict`, or if anything else
    fails, none is changed.

    Parameters:
        what: a refresh group, or snapshots of one group, as a list or separated
            by commas (outside quotes). The others of the group are refreshed too:
            a group has one moment.
        progress: is told how far the refresh is.
        **options: the fields of `RefreshOptions`, as `method="c"`.

    Raises:
        UnknownSnapshot, DifferentGroups, WrongMethod: `what` or `method` is wrong.
        BadOption: there is no such option, or its value is not allowed.
        RefreshRunning, ErrorsAtMaster, MassDelete: not now, or only with an option.
        UsersInTheWay: users of the site hold locks on tables, attempt after attempt.
        CannotMerge: the site refuses the rows.
        NoSnapshotLog, SnapshotLogTooYoung: a fast refresh (`f`) is not possible.
        ColumnGone, ColumnChanged, RowsHidden, UnknownTable: a master table does not
            fit its snapshot any more. These and the next five are raised if `strict`,
            or if no other snapshot of the group can be refreshed.
        KeyNotUnique: rows of a master table may have the same key.
        MasterBehind, PartUnrecorded: DDL is missing at the master, or triggers are.
        ConditionBroken: what a condition names was renamed or dropped at the master.
        TargetColumnsMoved, ValueWouldChange: changes wait that were made for other
            columns, or for wider ones.
        SiteUnreachable, SiteChanged, SiteRestored, SiteReplaced, MasterChanged: one
            of the two databases is away, or was restored or replaced.
        OlderSchema, NewerSchema: another version of Snaptide made the schema of a side.
        PastRetention, CannotTell, PushRunning: the two databases do not agree on
            what was pushed.
        NotGranted: the master does not let the site read a table any more. Its rows
            have left, as the policies of their snapshots say, and the message says how
            many; more than a few leave only if `allow_mass_delete`.
        MissingExtra: `snaptide[spark]` is not installed.
    """
    chosen = RefreshOptions.of(options)
    extras.require("spark")
    with traces.span("refresh", site=site.name) as span:
        report = _refresh(site, what, chosen, progress, span)
        span.note(
            inserted=sum(one.inserted for one in report.snapshots),
            updated=sum(one.updated for one in report.snapshots),
            deleted=sum(one.deleted for one in report.snapshots),
            held_back=sum(one.held_back for one in report.snapshots),
        )
    return report


def _refresh(
    site: Site,
    what: str | Sequence[str],
    chosen: RefreshOptions,
    progress: Progress | None,
    span: traces.Running,
) -> RefreshReport:
    """Push, then bring the group to a moment, in as many turns as it takes."""
    started = time.monotonic()
    with site.session() as connection, autocommit(connection):
        group, named = group_of(connection, site.name, what)
    span.note(group=group.name, master=group.master)
    pushed, refused, steps = None, None, Steps()
    if chosen.push_deferred_rpc and group.has_queues and not group.waits:
        pushed = PushReport(site=site.name, destination=group.master)
    elif chosen.push_deferred_rpc and group.has_queues:
        with _noted(site, group.name, steps):
            steps.begin(PUSH)
            try:
                pushed = _push(site, group)
            except possible.OF_ONE as error:
                if chosen.strict:
                    raise
                refused = error
            except NotGranted as error:
                with refresh_group.exclusively(site, group.name) as connection:
                    said = taken_back.leave(connection, site, group.name, chosen, error)
                raise said from error
    turns = partial(_in_turns, site, group, named, chosen, steps, progress, refused)
    try:
        done, position, reports = turns()
    except NoConnectionFree:
        done, position, reports = full.anew(turns)
    return RefreshReport(
        site=site.name,
        group=group.name,
        snapshots=reports,
        position=position,
        seconds=time.monotonic() - started,
        pushed=pushed,
        not_pushed=None if refused is None else f"{refused.code} {refused.message}",
        behind=tuple(
            LeftBehind(
                name=one.key,
                **asdict(why),
                position=done.group.shown_by(one) if one.loaded else None,
            )
            for one, why in done.left
        ),
    )


def _in_turns(
    site: Site,
    group: RefreshGroup,
    named: list[str],
    chosen: RefreshOptions,
    steps: Steps,
    progress: Progress | None,
    refused: SnaptideError | None,
) -> tuple[task.Task, str, tuple[SnapshotReport, ...]]:
    """Bring the group to a moment, in as many turns as it takes."""
    with (
        refresh_group.exclusively(site, group.name) as connection,
        _noted(site, group.name, steps),
    ):
        read = partial(task.read, connection, site, group.name, named, chosen, steps)
        attempts = retry.on(
            PositionMoved,
            StageLost,
            UsersInTheWay,
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random(max=PAUSE),
        )
        try:
            turns = possible.refresh_possible
            return attempts(turns, read, connection, progress, refused)
        except NotGranted as error:
            left = taken_back.leave(connection, site, group.name, chosen, error)
            raise left from error


def _push(site: Site, group: RefreshGroup) -> PushReport:
    """Push; if columns have moved because of DDL for sites, follow it first."""
    try:
        return deferred.push(site, group.master)
    except _MOVED:
        with refresh_group.exclusively(site, group.name) as connection:
            members = snapshot.members(connection, group.name)
            if not follow_ddl.follow(connection, site, group, members):
                raise
    return deferred.push(site, group.master)


#: Refusals of columns that the master has renamed or dropped.
_MOVED = (TargetColumnsMoved, UnknownColumn)


@contextmanager
def _noted(site: Site, group: str, steps: Steps) -> Iterator[None]:
    """Leave the reason of a failure, and how long it took, where status finds them."""
    try:
        yield
    except NoConnectionFree:
        # It was not tried.
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        if isinstance(error, SnaptideError):
            said = f"{error.code} {error.message}"
        with suppress(SnaptideError, SQLAlchemyError), site.transaction() as connection:
            refresh_group.note_error(connection, group, said, steps.seconds)
        raise


def _split(what: str | Sequence[str]) -> list[str]:
    parts = names.divided(what, ",") if isinstance(what, str) else list(what)
    return [part.strip() for part in parts if part.strip()]


def group_of(
    connection: Connection, name: str, what: str | Sequence[str]
) -> tuple[RefreshGroup, list[str]]:
    """The group that `what` means, and the names that were given.

    Parameters:
        name: of the site, which is confirmed.
    """
    whole = what.strip() if isinstance(what, str) else ""
    if found := refresh_group.confirm_and_find(connection, name, whole):
        return found, [found.name]
    named = _split(what)
    if len(named) == 1 and (found := refresh_group.find(connection, named[0])):
        return found, named
    if not named:
        raise UnknownSnapshot("There is nothing to refresh.")
    groups = {snapshot.read(connection, n).refresh_group for n in named}
    if len(groups) > 1:
        raise DifferentGroups(
            f"{', '.join(named)} belong to different groups: "
            f"{', '.join(sorted(groups))}.",
            groups=sorted(groups),
        )
    group = refresh_group.find(connection, groups.pop())
    assert group is not None
    return group, named
