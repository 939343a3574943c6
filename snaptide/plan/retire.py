"""Takes a site out of service: nothing is lost unseen, and no master waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, select

import deferred
import groups
import snapshots
import synchronous
from masters.catalog import registered_snapshot
from sites import Site, SnaptideError, faults
from sites.errors import OtherSchema, SiteNotInitialised, SiteUnreachable
from sites.sessions import identity, revisions
from sites.words import counted
from snaptide.plan.around_steps import RemoveSchedule
from snaptide.plan.errors import StillInUse, WouldBeLost
from snaptide.plan.found import Found, found_at
from snaptide.plan.step import Step, column_named
from snaptide.plan.steps import DropSnapshot, ReturnNumbers
from snaptide.plan.wanted import children_first

_at = registered_snapshot.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """What became of a site that was taken out of service."""

    site: str
    #: transactions that were pushed first
    pushed: int = 0
    #: schedules that were removed, and snapshots that were dropped
    steps: tuple[Step, ...] = ()
    #: by master, the snapshots that it still knew and has forgotten
    unregistered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: what is lost, or stays in the error queues of masters; only if it was forced
    lost: tuple[str, ...] = ()
    #: sites that could not be asked whether they know snapshots of this one
    away: tuple[str, ...] = ()


def retire(
    site: Site, *, force: bool = False, on_step: Callable[[Step], None] | None = None
) -> Retired:
    """Take a site out of service: push, drop its snapshots, unregister it everywhere.

    The schema snaptide stays, and with it what the site remembers of others:
    `snaptide site downgrade SITE base` removes it. After a failure it may be called
    again, and does the rest.

    Parameters:
        force: even if changes are lost or parked, or the site cannot be reached; then
            it is only unregistered.
        on_step: is called with each step before it is done.

    Raises:
        WouldBeLost: the message says what; nothing was dropped.
        StillInUse: other sites have snapshots of its tables, or it is a master of a
            replication group.
        SiteUnreachable: it is away, and `force` is not set; or one of its masters went
            away meanwhile.
        StillNeeded: a view or another object of a user depends on a snapshot.
    """
    if force and (why := _why_away(site)):
        made = Retired(site=site.name, lost=(why,))
    else:
        made = _emptied(site, force=force, on_step=on_step)
    unregistered, away = _forgotten(site)
    return Retired(
        site=site.name,
        pushed=made.pushed,
        steps=made.steps,
        unregistered=unregistered,
        lost=made.lost,
        away=away,
    )


def _why_away(site: Site) -> str | None:
    """Why the site itself, and not one of its masters, cannot be reached."""
    try:
        with site.session():
            return None
    except SiteUnreachable as error:
        return error.message


def _emptied(
    site: Site, *, force: bool, on_step: Callable[[Step], None] | None
) -> Retired:
    """Push, and drop all snapshots of a site and its schedules."""
    with site.session() as connection:
        if revisions.of_site(connection) is None:
            return Retired(site=site.name)
        _refuse_in_use(connection, site)
    found = found_at(site)
    pushes = deferred.push_all(site)
    lost = [*_left(site, found)]
    # A master that is away is named already.
    new = (m for m in (e.message for e in pushes.errors) if m not in "\n".join(lost))
    lost += [*new]
    if lost and not force:
        raise WouldBeLost(f"Site {site.name}: {'; '.join(lost)}.", lost=lost)
    steps: list[Step] = [
        RemoveSchedule(site=site.name, kind=one.kind, subject=one.subject)
        for one in found.schedules
    ]
    steps += [
        ReturnNumbers(
            site=site.name, column=f"{one.snapshot}.{column_named(one.column)}"
        )
        for one in snapshots.list_numbers(site)
        if one.left and not lost
    ]
    steps += [
        DropSnapshot(site=site.name, name=name, force=force)
        for name in children_first(found.snapshots)
    ]
    for step in steps:
        if on_step is not None:
            on_step(step)
        step.run(site.directory)
        faults.point("site_retire.after_step")
    return Retired(
        site=site.name,
        pushed=sum(one.transactions for one in pushes.reports),
        steps=tuple(steps),
        lost=tuple(lost),
    )


def _refuse_in_use(connection: Connection, site: Site) -> None:
    named = (_at.site_name, _at.snapshot)
    users = connection.execute(select(*named).order_by(*named)).all()
    names = [f"{owner}:{snapshot}" for owner, snapshot in users if owner != site.name]
    member = [one.name for one in groups.list_groups(site)]
    if names or member:
        said = [f"it is the master of {', '.join(names)}"] if names else []
        said += [f"it belongs to group {', '.join(member)}"] if member else []
        raise StillInUse(
            f"Site {site.name} is still in use: {'; '.join(said)}.", snapshots=names
        )


def _left(site: Site, found: Found) -> Iterator[str]:
    """What would be lost with a site, or with its name, after a push."""
    for one in deferred.list_destinations(site):
        if one.transactions:
            changes = f"{counted(one.calls, 'change')} in queue"
            yield f"{changes} for {one.destination}: pushes do not bring them there"
    homes = {group.master for group in found.groups.values()}
    # Transactions that were withdrawn when rows left stand in the site's own queue.
    for home in sorted(homes | {*found.destinations, site.name}):
        try:
            parked = len(deferred.list_errors(site.peer(home), site.name))
        except (SiteUnreachable, SiteNotInitialised, OtherSchema) as error:
            what = "cannot say whether it has parked transactions"
            yield f"{home} {what}: {error.message}"
            continue
        if parked:
            what = counted(parked, "parked transaction")
            listed = f"snaptide errors list {home} --origin {site.name}"
            yield f"{what} at {home} ({listed})"
    doubtful = [
        one for one in synchronous.list_in_doubt(site) if one.state != "heuristic"
    ]
    if doubtful:
        yield counted(len(doubtful), "transaction") + " in doubt"
    for member in found.snapshots.values():
        kept, name = member.described.kept, member.described.name
        if kept:
            yield f"{counted(kept, 'row')} that left {name} and are kept"


def _forgotten(site: Site) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Have all other sites forget the snapshots of a site."""
    forgotten, away = {}, []
    for other in site.directory.values():
        if other.name == site.name:
            continue
        try:
            with other.transaction() as connection:
                if revisions.of_site(connection) is None:
                    continue
                identity.read(connection, partner=True)
                mine = delete(registered_snapshot).where(_at.site_name == site.name)
                gone = connection.scalars(mine.returning(_at.snapshot)).all()
        except SnaptideError:
            away.append(other.name)
            continue
        if gone:
            forgotten[other.name] = tuple(sorted(gone))
    return forgotten, tuple(away)
