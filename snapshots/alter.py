"""Change which rows a snapshot has, without taking it away from its users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, Update, update

from sites import ddl, faults, identity, locks
from sites.site import Site
from sites.table import ForeignKey, describe
from snapshots import (
    base_table,
    catalog,
    frozen,
    parents,
    refresh_group,
    rewrites,
    snapshot,
)
from snapshots.definition import define
from snapshots.follow import composed, exists, following
from snapshots.listing import describe_snapshot
from snapshots.policy import Leaving
from snapshots.reports import SnapshotDescription
from snapshots.snapshot import Snapshot


def alter_condition(
    site: Site, name: str, *, where: str | None = None, follow: Sequence[str] = ()
) -> list[SnapshotDescription]:
    """Give a snapshot another condition; the next refresh brings and removes rows.

    Snapshots that follow it go on following it. Views, grants, queues and whatever
    depends on them stay. That refresh compares all rows. Rows with changes that the
    master has not answered leave after it has.

    Parameters:
        where, follow: as `create` takes them; without either, all rows belong.

    Returns:
        The snapshots with another condition, the named one first.

    Raises:
        UnknownSnapshot, RefreshRunning: not now.
        BadCondition, SnapshotRefused: as for a new snapshot; nothing was changed.
        NeedsParent: another snapshot of the group asks for rows that would leave.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        before = snapshot.read(connection, name)
        group = refresh_group.find(connection, before.refresh_group)
    assert group is not None
    master = site.peer(group.master)
    with refresh_group.exclusively(site, group.name) as connection:
        members = snapshot.members(connection, group.name)
        asked = composed(site, master, before.master, group.name, follow, where)
        altered = _altered(master, before, asked, members)
        for attempt in locks.patiently():
            with attempt, site.transaction() as connection:
                locks.briefly(connection)
                _replace(connection, master, altered)
                faults.point("snapshot_alter.before_commit")
    faults.point("snapshot_alter.after_commit")
    return [describe_snapshot(site, one.key) for one in altered]


def alter_leaving(site: Site, name: str, leaving: Leaving | str) -> SnapshotDescription:
    """Decide anew what becomes of rows that leave a snapshot's condition.

    Raises:
        UnknownSnapshot, RefreshRunning: not now.
        SnapshotRefused: there is no such policy, or not for this snapshot.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        before = snapshot.read(connection, name)
    policy = Leaving.named(leaving, updatable=before.updatable)
    with refresh_group.exclusively(site, before.refresh_group):
        for attempt in locks.patiently():
            with attempt, site.transaction() as connection:
                locks.briefly(connection)
                connection.execute(_change(before).values(leaving=policy))
                if before.loaded:
                    altered = replace(before, leaving=policy)
                    frozen.guard(connection, altered, describe(connection, before.base))
    return describe_snapshot(site, name)


def _change(one: Snapshot) -> Update:
    return update(catalog.snapshot).where(
        catalog.snapshot.c.schema == one.schema, catalog.snapshot.c.name == one.name
    )


def _altered(
    master: Site, named: Snapshot, asked: str | None, members: Sequence[Snapshot]
) -> list[Snapshot]:
    """A snapshot with another condition, and those that follow it, as they will be."""
    altered = {named.key: _with(master, named, asked)}
    waiting = [(named, altered[named.key])]
    while waiting:
        before, now = waiting.pop(0)
        for one in members:
            child = altered.get(one.key, one)
            text = child.condition
            for ask in following(child, before):
                pairs = zip(ask.columns, ask.key, strict=True)
                text = str(text).replace(ask.text, exists(child.master, pairs, now))
            if text != child.condition:
                altered[one.key] = _with(master, child, text)
                waiting.append((child, altered[one.key]))
    return [*altered.values()]


def _with(master: Site, one: Snapshot, asked: str | None) -> Snapshot:
    """A snapshot with another condition, which its master has checked and printed."""
    made = define(
        master,
        one.master,
        columns=one.columns,
        condition=asked,
        updatable=one.updatable,
    )
    return replace(one, condition=made.condition)


def _replace(connection: Connection, master: Site, altered: Sequence[Snapshot]) -> None:
    """Write the conditions down, and replace what depends on them."""
    # The master registers other parents at the next refresh (`enrolment`).
    for one in altered:
        values = {"condition": one.condition, **rewrites.UNKNOWN}
        connection.execute(_change(one).values(values))
    members = snapshot.members(connection, altered[0].refresh_group)
    for one in members:
        parents.refuse_hiding(connection, one)
    changed = {one.key for one in altered}
    for child, key in _not_followed(connection, master, changed, members):
        ddl.drop_constraint(connection, child.base, key.name)
    for one in altered:
        if one.loaded:
            base_table.create_user_view(connection, one, replace=True)


def _not_followed(
    connection: Connection,
    master: Site,
    changed: set[str],
    members: Sequence[Snapshot],
) -> list[tuple[Snapshot, ForeignKey]]:
    """Foreign keys between snapshots that hold no longer for all rows.

    A key that only the site has is the user's, and stays.
    """
    by_base = {one.base: one for one in members}
    found = []
    with master.session() as there:
        for child in members:
            for key in describe(connection, child.base).foreign_keys:
                parent = by_base.get(key.parent)
                if parent is None or not {child.key, parent.key} & changed:
                    continue
                copied = {k.name for k in describe(there, child.master).foreign_keys}
                if key.name in copied and not parents.follows(child, key, parent):
                    found.append((child, key))
    return found
