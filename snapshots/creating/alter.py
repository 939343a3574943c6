"""Change which rows a snapshot has, without taking it away from its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from sites import faults
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import ddl, locks
from sites.tables.table import ForeignKey, describe
from snapshots.creating import base_table
from snapshots.creating.listing import describe_snapshot
from snapshots.definitions import (
    frozen,
    parents,
    refresh_group,
    rewrites,
    snapshot,
    unaltered,
)
from snapshots.definitions.definition import define
from snapshots.definitions.errors import SnapshotRefused
from snapshots.definitions.follow import composed, exists, following
from snapshots.definitions.policy import Leaving
from snapshots.definitions.snapshot import Snapshot
from snapshots.reports import SnapshotDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Which rows a snapshot is to have, as `create` takes it; by default all."""

    where: str | None = None
    follow: Sequence[str] = ()


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
        PositionMoved: the group was refreshed or altered all the same.
        BadCondition, SnapshotRefused: as for a new snapshot; nothing was changed.
        NeedsParent: another snapshot of the group asks for rows that would leave; see
            `alter_conditions`.
    """
    return alter_conditions(site, {name: Condition(where=where, follow=follow)})


def alter_conditions(
    site: Site, conditions: Mapping[str, Condition]
) -> list[SnapshotDescription]:
    """Give snapshots of one refresh group other conditions, all in one transaction.

    As `alter_condition`, for snapshots that ask for more than what their parents have:
    neither can be altered before the other.

    Parameters:
        conditions: by name of the snapshot, parents before those that follow them.

    Raises:
        the errors of `alter_condition`.
        SnapshotRefused: the snapshots are of several refresh groups.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        name = _group([snapshot.read(connection, one) for one in conditions])
    with refresh_group.exclusively(site, name) as connection:
        # They may have been altered a moment ago, by somebody else.
        group = unaltered.read(connection, name)
        master = site.peer(group.head.master)
        named = [snapshot.read(connection, one) for one in conditions]
        altered: dict[str, Snapshot] = {}
        for before, condition in zip(named, conditions.values(), strict=True):
            now = [altered.get(one.key, one) for one in group.members]
            one = altered.get(before.key, before)
            altered |= with_followers(master, one, condition, now)
        copied = copied_keys(master, group.members)
        for attempt in locks.patiently():
            with attempt, site.transaction() as connection:
                locks.briefly(connection)
                group.lock(connection, new_matters=True)  # it may follow these
                replace_conditions(connection, list(altered.values()), copied)
                faults.point("snapshot_alter.before_commit")
    faults.point("snapshot_alter.after_commit")
    first = dict.fromkeys([*(one.key for one in named), *altered])
    return [describe_snapshot(site, key) for key in first]


def _group(named: Sequence[Snapshot]) -> str:
    groups = sorted({one.refresh_group for one in named})
    if len(groups) != 1:
        raise SnapshotRefused(
            "Name snapshots of one refresh group; these are of "
            f"{', '.join(groups) or 'none'}."
        )
    return groups[0]


def alter_leaving(site: Site, name: str, leaving: Leaving | str) -> SnapshotDescription:
    """Decide anew what becomes of rows that leave a snapshot's condition.

    Raises:
        UnknownSnapshot, RefreshRunning: not now.
        PositionMoved: the group was refreshed or altered all the same.
        SnapshotRefused: there is no such policy, or not for this snapshot.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        its = snapshot.read(connection, name).refresh_group
    with refresh_group.exclusively(site, its) as alone:
        group = unaltered.read(alone, its)
        before = snapshot.read(alone, name)
        policy = Leaving.named(leaving, updatable=before.updatable)
        for attempt in locks.patiently():
            with attempt, site.transaction() as connection:
                locks.briefly(connection)
                group.lock(connection)
                connection.execute(snapshot.change(before).values(leaving=policy))
                if before.loaded:
                    altered = replace(before, leaving=policy)
                    frozen.guard(connection, altered, describe(connection, before.base))
    return describe_snapshot(site, name)


def with_followers(
    master: Site, named: Snapshot, condition: Condition, members: Sequence[Snapshot]
) -> dict[str, Snapshot]:
    """A snapshot with another condition, and those that follow it, as they will be.

    Parameters:
        members: the snapshots of its group.
    """
    asked = composed(
        master,
        named.master,
        named.refresh_group,
        members,
        condition.follow,
        condition.where,
    )
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
    return altered


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


#: By snapshot, the names of the foreign keys that its master table has.
CopiedKeys = Mapping[str, frozenset[str]]


def copied_keys(master: Site, members: Sequence[Snapshot]) -> CopiedKeys:
    """The foreign keys that snapshots have from the master; others are users' own."""
    with master.session() as there:
        return {
            one.key: frozenset(
                key.name for key in describe(there, one.master).foreign_keys
            )
            for one in members
        }


def replace_conditions(
    connection: Connection, altered: Sequence[Snapshot], copied: CopiedKeys
) -> None:
    """Write the conditions down, and replace what depends on them."""
    # The master registers other parents at the next refresh.
    for one in altered:
        values = {"condition": one.condition, **rewrites.COMPARED}
        connection.execute(snapshot.redefine(one).values(values))
    members = snapshot.members(connection, altered[0].refresh_group)
    for one in members:
        parents.refuse_hiding(connection, one)
    changed = {one.key for one in altered}
    for child, key in _not_followed(connection, copied, changed, members):
        ddl.drop_constraint(connection, child.base, key.name)
    for one in altered:
        if one.loaded:
            base_table.create_user_view(connection, one, replace=True)


def _not_followed(
    connection: Connection,
    copied: CopiedKeys,
    changed: set[str],
    members: Sequence[Snapshot],
) -> list[tuple[Snapshot, ForeignKey]]:
    """Foreign keys between snapshots that hold no longer for all rows.

    A key that only the site has is the user's, and stays.
    """
    by_base = {one.base: one for one in members}
    return [
        (child, key)
        for child in members
        for key in describe(connection, child.base).foreign_keys
        if (parent := by_base.get(key.parent)) is not None
        and {child.key, parent.key} & changed
        and key.name in copied.get(child.key, ())
        and not parents.follows(child, key, parent)
    ]
