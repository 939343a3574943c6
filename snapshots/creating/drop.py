"""Drop a snapshot, at its site and from its master's register."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from deferred.batches import work
from deferred.queues import queue
from masters.log import registration
from sites import faults
from sites.errors import (
    OtherSchema,
    SiteChanged,
    SiteNotInitialised,
    SiteUnreachable,
    StillNeeded,
)
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import ddl, locks, views
from sites.words import counted, does
from snapshots import catalog
from snapshots.creating import base_table
from snapshots.definitions import refresh_group, snapshot, unaltered
from snapshots.definitions.errors import (
    MasterUnreachable,
    RowsKept,
    UndeliveredCalls,
)
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.snapshot import Snapshot
from snapshots.definitions.unaltered import Before
from snapshots.errors import MasterChanged
from snapshots.merging import kept
from snapshots.spark import claims


def drop(site: Site, name: str, *, force: bool = False) -> None:
    """Drop a snapshot with its queue; the master table is not touched.

    The master unregisters it first, while it is still in use: users of the site
    wait only for the drop itself. If the drop fails or never comes, the snapshot
    is unchanged, and its next refresh, which has to be complete, registers it.

    Transactions that were withdrawn from its queue stay in the site's error queue. They
    can be put back once the snapshot was created again, of the same table of the same
    master, and with the same columns.

    Parameters:
        force: drop it even if changes are not delivered or rows that left it are
            kept, which are then lost, or if the master cannot be reached, or another
            database has its name: the master's log then keeps rows for it.

    Raises:
        UnknownSnapshot: there is none of that name.
        RefreshRunning, PositionMoved: its group is being refreshed, or was meanwhile.
        UndeliveredCalls, RowsKept, MasterUnreachable: raised only if `force` is not
            set.
        StillNeeded: a view or another object of a user depends on it.
    """
    with site.session() as connection:
        who = identity.read(connection)
        its = snapshot.read(connection, name).refresh_group
    with refresh_group.exclusively(site, its) as alone:
        group = unaltered.read(alone, its)
        found = snapshot.read(alone, name)
        _drop(site, group, found, force=force, rehearsal=True)
        faults.point("snapshot_drop.before_unregister")
        _unregister(site, group.head, who, found, force=force)
        faults.point("snapshot_drop.after_unregister")
        _drop(site, group, found, force=force)
    faults.point("snapshot_drop.after_commit")


def _drop(
    site: Site, group: Before, found: Snapshot, *, force: bool, rehearsal: bool = False
) -> None:
    """Drop all that the site has of a snapshot; commits, unless it is a rehearsal."""
    for attempt in locks.patiently():
        with attempt, site.transaction() as connection:
            locks.briefly(connection)
            group.lock(connection)
            _refuse_asked(connection, found)
            with ddl.dropping(f"Snapshot {found.key}"):
                base_table.close_to_users(connection, found)
                if not force:
                    _refuse_undelivered(connection, found)
                    _refuse_kept(connection, found)
                base_table.drop(connection, found, force=force)
            claims.forget(connection, claims.id_of(found.base))
            kept.forget(connection, found.key)
            connection.execute(delete(catalog.snapshot).where(snapshot.named(found)))
            refresh_group.drop_if_empty(connection, found.refresh_group)
            if rehearsal:
                connection.rollback()
            else:
                faults.point("snapshot_drop.before_commit")


def _refuse_asked(connection: Connection, found: Snapshot) -> None:
    """Keep a snapshot that the user views of others ask: they would go with it."""
    asking = views.reading(connection, found.base).keys() - {found.qualified}
    for one in snapshot.members(connection, found.refresh_group):
        if one.qualified in asking:
            raise StillNeeded(
                f"Snapshot {found.key} cannot be dropped: the condition of {one.key} "
                "asks it."
            )


def _refuse_undelivered(connection: Connection, found: Snapshot) -> None:
    calls = queue.find_queue(connection, found.key)
    waiting = queue.undelivered_calls(connection, calls) if calls else 0
    if waiting:
        raise UndeliveredCalls(
            f"{waiting} changes of snapshot {found.key} are not delivered yet.",
            snapshot=found.key,
            calls=waiting,
        )


def _refuse_kept(connection: Connection, found: Snapshot) -> None:
    if rows := kept.count(connection, found.key):
        raise RowsKept(
            f"{counted(rows, 'row')} that left snapshot {found.key} "
            f"{does(rows, 'are')} kept here.",
            snapshot=found.key,
            rows=rows,
        )


#: Nobody answers as the master; or it is not known whether it is the master that does.
_NOT_THERE = (
    SiteUnreachable,
    SiteNotInitialised,
    SiteChanged,
    MasterChanged,
    OtherSchema,
)


def _unregister(
    site: Site,
    group: RefreshGroup,
    who: identity.Identity,
    found: Snapshot,
    *,
    force: bool,
) -> None:
    home = site.peer(group.master)
    try:
        with home.transaction() as connection:
            them = identity.confirm(connection, group.master, partner=True)
            # It keeps no log for this snapshot, and nobody tells the master that does.
            refresh_group.refuse_another(them, group)
            registration.unregister(connection, who.site_id, [found.key])
        work.sweep(home)
    except _NOT_THERE as error:
        if not force:
            raise MasterUnreachable(
                f"{error.message} The master would keep its log for {found.key}.",
                snapshot=found.key,
            ) from None
