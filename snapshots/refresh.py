"""Refresh: bring a group of snapshots to one present moment of its master."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

import deferred
from deferred.queues import queue
from sites import extras, identity, names
from sites.activity import Progress
from sites.errors import SnaptideError
from sites.site import Site, autocommit
from snapshots import refresh_group, refresh_once, snapshot, task
from snapshots.errors import (
    DifferentGroups,
    PositionMoved,
    StageLost,
    UnknownSnapshot,
)
from snapshots.merge import Rules
from snapshots.refresh_group import RefreshGroup
from snapshots.reports import RefreshReport

#: Turns before a refresh gives up, if another one keeps coming in between.
ATTEMPTS = 3


def refresh(
    site: Site,
    what: str | Sequence[str],
    *,
    method: str = "?",
    push_deferred_rpc: bool = True,
    refresh_after_errors: bool = True,
    keep_pending: bool = True,
    allow_mass_delete: bool = False,
    mass_delete_share: float = 0.3,
    progress: Progress | None = None,
) -> RefreshReport:
    """Refresh a group of snapshots (Oracle: DBMS_SNAPSHOT.REFRESH, DBMS_REFRESH).

    All snapshots of the group come to one moment of the master; if anything
    fails, none is changed.

    Parameters:
        what: a refresh group, or snapshots of one group, as a list or separated
            by commas (outside quotes). The others of the group are refreshed too:
            a group has one moment.
        method: one character for each snapshot named, `f` fast, `c` complete,
            `?` fast if possible; the last ones may be left out. A snapshot that
            was never loaded is loaded, whatever the method.
        push_deferred_rpc: push the site's own changes first.
        refresh_after_errors: refresh although transactions of this site that
            touch the group stand in the master's error queue.
        keep_pending: leave rows alone that the site changed and the master has
            not answered. False shows the master's values meanwhile, as Oracle did.
        allow_mass_delete: refresh even if more than `mass_delete_share` of a
            snapshot is deleted.
        progress: is told how far the refresh is.

    Raises:
        UnknownSnapshot, DifferentGroups, WrongMethod: `what` or `method` is wrong.
        RefreshRunning, ErrorsAtMaster, MassDelete: not now, or only with an option.
        NoSnapshotLog, SnapshotLogTooYoung: a fast refresh (`f`) is not possible.
        SiteUnreachable, SiteChanged, SiteRestored, SiteReplaced, MasterChanged: one
            of the two databases is away, or was restored or replaced.
        PastRetention, CannotTell, PushRunning: the two databases do not agree on
            what was pushed.
        MissingExtra: `snaptide[spark]` is not installed.
    """
    started = time.monotonic()
    extras.require("spark")
    with site.session() as connection, autocommit(connection):
        identity.confirm(connection, site.name)
        group, named = _group_of(connection, what)
        has_queues = bool(queue.list_queues(connection, group.master))
    pushes = push_deferred_rpc and has_queues
    with _noted(site, group.name):
        pushed = deferred.push(site, group.master) if pushes else None
    rules = Rules(
        keep_pending=keep_pending,
        allow_mass_delete=allow_mass_delete,
        mass_delete_share=mass_delete_share,
    )
    with (
        refresh_group.exclusively(site, group.name) as connection,
        _noted(site, group.name),
    ):
        for attempt in _again():
            with attempt:
                given = task.read(connection, site, group.name, named, method, rules)
                if not refresh_after_errors:
                    task.refuse_errors(given)
                position, reports = refresh_once.refresh_once(given, progress)
    return RefreshReport(
        site=site.name,
        group=group.name,
        snapshots=reports,
        position=position,
        seconds=time.monotonic() - started,
        pushed=pushed,
    )


@contextmanager
def _noted(site: Site, group: str) -> Iterator[None]:
    """Leave the reason of a failure where status finds it."""
    try:
        yield
    except Exception as error:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        if isinstance(error, SnaptideError):
            said = f"{error.code} {error.message}"
        with suppress(SnaptideError, SQLAlchemyError), site.transaction() as connection:
            refresh_group.note_error(connection, group, said)
        raise


def _split(what: str | Sequence[str]) -> list[str]:
    parts = names.divided(what, ",") if isinstance(what, str) else list(what)
    return [part.strip() for part in parts if part.strip()]


def _group_of(
    connection: Connection, what: str | Sequence[str]
) -> tuple[RefreshGroup, list[str]]:
    """The group that `what` means, and the names that were given."""
    if isinstance(what, str) and (
        found := refresh_group.find(connection, what.strip())
    ):
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


def _again() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type((PositionMoved, StageLost)),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
