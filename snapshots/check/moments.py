"""The two moments that a check compares: first the site's, then the master's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, text

from deferred.batches import reconcile
from sites.capture import position
from sites.sessions import lost
from sites.sessions.identity import Identity
from sites.sessions.peers import Pair
from sites.sessions.site import Site, autocommit
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences import failing_lens, moved, window
from snapshots.differences.window import COMPLETE, Window
from snapshots.errors import PositionMoved
from snapshots.keys import Side, Sides
from snapshots.refreshing import task


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Both sides of a refresh group, each at one moment, in transactions that read."""

    sides: Sides
    #: which snapshots were asked for, and what may have changed at the master since the
    #: position that the site shows
    seen: Window
    who: Identity
    #: the moment of the site
    here: str


@contextmanager
def held(site: Site, group_name: str, wanted: Sequence[str]) -> Iterator[Moments]:
    """Hold one moment of the site and then one of the master, as long as the block.

    Parameters:
        wanted: the snapshots of the group to compare, by their keys.

    Raises:
        PositionMoved: a refresh came in between; hold them again.
        SiteUnreachable, SiteChanged, SiteRestored, SiteReplaced, MasterChanged: one of
            the two databases is away, or was restored or replaced.
    """
    group, known = _read(site, group_name, wanted)
    master_site = site.peer(group.master)
    with (
        site.session() as here,
        master_site.session() as master,
        task.explained(master_site, known, "check"),
        lost.told((site.name, here), (group.master, master)),
    ):
        who = _confirmed(here, master, site.name, group.master).site
        group, members = _hold_site(here, site, group_name, wanted)
        task.hold_master(master, members, "check")
        master.execute(text("SET TRANSACTION READ ONLY"))
        seen = window.read(
            master,
            here,
            who,
            group,
            members,
            {},
            task.registered(master, who.site_id, members),
        )
        sides = Sides(
            master=Side(site=master_site, at=master), site=Side(site=site, at=here)
        )
        # The site may be wrong about any row: that is the question.
        seen = moved.find(sides, seen, trust_site=False)
        _refuse_late(site, seen, group)
        with failing_lens.named(master_site, seen.members):
            yield Moments(sides=sides, seen=seen, who=who, here=position.current(here))
        here.rollback()
        master.rollback()


def _read(
    site: Site, group_name: str, wanted: Sequence[str]
) -> tuple[RefreshGroup, list[Snapshot]]:
    with site.transaction() as connection:
        return _catalog(connection, group_name, wanted)


def _catalog(
    connection: Connection, group_name: str, wanted: Sequence[str]
) -> tuple[RefreshGroup, list[Snapshot]]:
    group = refresh_group.find(connection, group_name)
    if group is None:
        raise PositionMoved(f"Refresh group {group_name} was dropped.")
    members = snapshot.members(connection, group_name)
    return group, [one for one in members if one.key in wanted and one.loaded]


def _confirmed(
    here: Connection, master: Connection, name: str, its_master: str
) -> Pair:
    """Make sure that neither side was restored; writes nothing.

    Raises:
        SiteRestored, SiteReplaced, SiteChanged: one was.
    """
    with autocommit(here, master):
        me = reconcile.look(here, name)
        them = reconcile.look_there(master, its_master, me.identity)
    return reconcile.compared(here, master, me, them)


def _hold_site(
    here: Connection, site: Site, group_name: str, wanted: Sequence[str]
) -> tuple[RefreshGroup, list[Snapshot]]:
    """Begin the moment of the site; what its catalog says there is what counts."""
    _, before = _read(site, group_name, wanted)
    task.hold(
        here,
        [one.base for one in before],
        gone="A base table of the group was dropped during the check.",
    )
    here.execute(text("SET TRANSACTION READ ONLY"))
    group, members = _catalog(here, group_name, wanted)
    if {one.base for one in members} - {one.base for one in before}:
        raise PositionMoved(f"Refresh group {group_name} has other snapshots now.")
    return group, members


def _refuse_late(site: Site, seen: Window, group: RefreshGroup) -> None:
    """Begin anew if the logs may have been purged because a refresh has finished.

    Raises:
        PositionMoved: one has.
    """
    if all(member.method != COMPLETE for member in seen.members):
        return
    with site.transaction() as connection:
        now = refresh_group.find(connection, group.name)
    if now is None or now.position != group.position:
        raise PositionMoved(f"Group {group.name} was refreshed during the check.")
