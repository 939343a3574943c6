"""Refresh groups: snapshots that always show one moment of one master."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Text, Update, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.batches import reconcile
from deferred.catalog import route
from deferred.queues import to_push
from masters.numbers import columns
from sites.capture.position import end
from sites.names import parse
from sites.sessions import identity
from sites.sessions.identity import Identity
from sites.sessions.prepared import Prepared, as_json
from sites.sessions.site import Site
from sites.tables import locks
from sites.transfer.types import PgSnapshot
from snapshots import catalog
from snapshots.definitions import refresh_notes, rewrites
from snapshots.definitions.errors import MixedMasters
from snapshots.definitions.refresh_notes import Done
from snapshots.definitions.snapshot import NOT_BEHIND, Behind, Snapshot, change
from snapshots.errors import MasterChanged, PositionMoved, RefreshRunning

_group = catalog.refresh_group


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGroup:
    """A refresh group: its master, and the moment of it that it shows."""

    name: str
    master: str
    master_id: uuid.UUID
    position: str | None
    #: of the master that the position belongs to; None before it was noted
    incarnation: uuid.UUID | None
    last_error: str | None
    #: whether columns of the site draw numbers that the master leases
    numbered: bool
    #: whether changes of the site's users are queued for the master
    has_queues: bool
    #: whether a push to its master may bring something, or be refused
    waits: bool
    #: whether snapshots of the site are to be unregistered at masters they have left
    has_left: bool
    #: whether its master has promised it something within a time
    has_promise: bool
    #: whether its contract has refreshes take the way that costs least
    repairs: bool

    def shown_by(self, one: Snapshot) -> str | None:
        """The moment of the master that a snapshot of the group shows."""
        return one.position or self.position


def find(connection: Connection, name: str) -> RefreshGroup | None:
    """The group of that name, or None."""
    if "\0" in name:
        return None
    row = _FIND.run(connection, its_group=name).one_or_none()
    return None if row is None else RefreshGroup(**row._mapping)


def confirm_and_find(
    connection: Connection, site_name: str, name: str
) -> RefreshGroup | None:
    """The same, and make sure that the site is the one of that name, in one round trip.

    Raises:
        SiteNotInitialised, NotAMember, SiteChanged: as `identity.confirm` raises them.
    """
    given = {"its_group": "" if "\0" in name else name}
    _, row = identity.confirm_and_read(connection, site_name, (SEEN,), given)
    return of(row.its_group)


def of(found: Sequence[Mapping[str, Any]] | None) -> RefreshGroup | None:
    """The group in the column `SEEN` of a row, or None."""
    if not found:
        return None
    (row,) = found
    ids = {
        name: None if row[name] is None else uuid.UUID(row[name])
        for name in ("master_id", "incarnation")
    }
    return RefreshGroup(**{**row, **ids})


def names(connection: Connection, master: str | None = None) -> list[str]:
    """The refresh groups of a site.

    Parameters:
        master: only those of this one.
    """
    found = select(_group.c.name).order_by(_group.c.name)
    if master is not None:
        found = found.where(_group.c.master == master)
    return list(connection.scalars(found))


def ensure(
    connection: Connection, name: str, master: str, master_id: uuid.UUID
) -> None:
    """Create a group, unless there is one with the same master.

    Waits for another transaction that creates it.

    Raises:
        MixedMasters: the group has another master.
    """
    made = insert(_group).values(name=name, master=master, master_id=master_id)
    while (found := find(connection, name)) is None:
        connection.execute(made.on_conflict_do_nothing())
    if (found.master, found.master_id) != (master, master_id):
        raise MixedMasters(
            f"Refresh group {name} has master {found.master}, not {master}.", group=name
        )


def still_has(connection: Connection, name: str, master_id: uuid.UUID) -> bool:
    """Whether a group has this master; if so, it keeps it until the commit.

    Writes the group's row: a switch that has begun and does not see what this
    transaction does is refused by the server.
    """
    at = _group.c
    same = sa.update(_group).where(at.name == name, at.master_id == master_id)
    return bool(connection.execute(same.values(master_id=master_id)).rowcount)


def stay(connection: Connection, group: RefreshGroup) -> None:
    """Keep a group from being dropped until the commit, if it has the same master.

    Raises:
        PositionMoved: it was dropped, or has another master.
    """
    same = _group.c.name == group.name, _group.c.master_id == group.master_id
    there = (
        select(_group.c.name).where(*same).with_for_update(read=True, key_share=True)
    )
    if connection.scalar(there) is None:
        raise PositionMoved(
            f"Refresh group {group.name} was dropped, or has got another master.",
            group=group.name,
        )


def drop_if_empty(connection: Connection, name: str) -> None:
    """Remove a group whose last snapshot is gone."""
    member = sa.exists().where(catalog.snapshot.c.refresh_group == name)
    connection.execute(sa.delete(_group).where(_group.c.name == name, ~member))


def confirm_master(
    them: Identity, group: RefreshGroup, here: str, *, complete: bool
) -> None:
    """Make sure that a master is the database that the group's position belongs to.

    Parameters:
        here: its position now.
        complete: all rows will be compared, whatever the position.

    Raises:
        MasterChanged: it is another one, or older than the position.
    """
    refuse_another(them, group)
    if group.incarnation not in (None, them.incarnation):
        return
    if group.position is not None and not complete and end(here) < end(group.position):
        raise MasterChanged(
            f"Site {group.master} is older than the state that group {group.name} "
            "shows.",
            group=group.name,
        )


def refuse_another(them: Identity, group: RefreshGroup) -> None:
    """Make sure that a database is the master of a group, and has not just its name.

    Raises:
        MasterChanged: it is another one.
    """
    if them.site_id != group.master_id:
        raise MasterChanged(
            f"Site name {group.master} leads to another site now.", group=group.name
        )


def lock_at(connection: Connection, group: RefreshGroup) -> None:
    """Lock a group's row for the merge, and check its master and position.

    Raises:
        PositionMoved: another refresh of the group, or a switch, came in between.
    """
    now = _LOCK.run(connection, its_group=group.name).one_or_none()
    if now is None or (now.master, now.position) != (group.master, group.position):
        raise PositionMoved(
            f"Another refresh of group {group.name} finished in the meantime."
        )


def advance(
    connection: Connection,
    group: RefreshGroup,
    position: str,
    incarnation: uuid.UUID,
    done: Done,
) -> None:
    """Note the moment that the group shows now, its incarnation, and what was done.

    Raises:
        PositionMoved: the site has agreed with another incarnation of the master.
    """
    noting = (
        sa.update(_group)
        .where(
            _group.c.name == group.name,
            reconcile.agrees_with(group.master, incarnation),
        )
        .values(
            position=sa.cast(sa.literal(position), PgSnapshot()),
            unchanged_at=None,
            incarnation=incarnation,
            refreshed_at=func.clock_timestamp(),
            last_error=done.error,
            **refresh_notes.counted(done),
        )
    )
    noted = connection.execute(refresh_notes.refreshed(group.name, noting, done))
    if not noted.rowcount:
        raise PositionMoved(f"Site {group.master} was repaired during the refresh.")


def leave_behind(
    connection: Connection,
    group: RefreshGroup,
    incarnation: uuid.UUID,
    left: Sequence[tuple[Snapshot, Behind]],
) -> None:
    """Note which snapshots a refresh leaves behind; each keeps the moment it shows.

    Writes `snapshot`.

    Parameters:
        group: as it was before the refresh.
        incarnation: of the master, to which the group's new position belongs. Former
            positions mean nothing in another one, so all rows are to be compared.
    """
    repaired = group.incarnation not in (None, incarnation)
    for one, why in left:
        position = group.shown_by(one) if one.loaded else None
        connection.execute(
            change(one).values(
                behind=asdict(why),
                position=sa.cast(sa.literal(position), PgSnapshot()),
                **(rewrites.UNKNOWN if repaired else {}),
            )
        )


def refreshed(name: str) -> Update:
    """A statement that notes that the group was up to date just now.

    Its parameter `its_moment` is the master's position then. The group's own stays:
    moving it is for refreshes that both sides have to remember.
    """
    moment = sa.bindparam("its_moment", type_=Text)
    return (
        sa.update(_group)
        .where(_group.c.name == name)
        .values(
            refreshed_at=func.clock_timestamp(),
            unchanged_at=sa.cast(moment, PgSnapshot()),
        )
    )


def date(connection: Connection, name: str, at: datetime) -> None:
    """Note that the moment that a group shows is of another time than now."""
    connection.execute(
        sa.update(_group).where(_group.c.name == name).values(refreshed_at=at)
    )


def move(
    connection: Connection,
    name: str,
    master: str,
    them: Identity,
    position: str | None,
    seen: Mapping[str, Mapping[str, object]],
) -> None:
    """Have a group refreshed from another master, starting at a position there.

    Parameters:
        seen: by snapshot, the facts about the new master's table (`rewrites`).
    """
    connection.execute(
        sa.update(_group)
        .where(_group.c.name == name)
        .values(
            master=master,
            master_id=them.site_id,
            position=sa.cast(sa.literal(position), PgSnapshot()),
            unchanged_at=None,
            incarnation=them.incarnation,
            last_error=None,
        )
    )
    for key, values in seen.items():
        connection.execute(change(parse(key)).values({**values, **NOT_BEHIND}))
    columns.move(connection, [*seen], master)


def is_synchronous(connection: Connection, name: str) -> bool:
    """Whether a group's changes go to the master in the user's own transaction."""
    return bool(
        connection.scalar(select(_group.c.synchronous).where(_group.c.name == name))
    )


def set_synchronous(connection: Connection, name: str, synchronous: bool) -> None:
    """Note how a group's changes travel."""
    connection.execute(
        sa.update(_group).where(_group.c.name == name).values(synchronous=synchronous)
    )


def note_error(
    connection: Connection, name: str, message: str, steps: Mapping[str, float]
) -> None:
    """Note why the last refresh failed, for status, and how long it took."""
    noting = sa.update(_group).where(_group.c.name == name).values(last_error=message)
    done = Done(steps=steps, error=message)
    connection.execute(refresh_notes.failed(name, noting, done))


def exclusively(site: Site, name: str) -> AbstractContextManager[Connection]:
    """Be the only refresh of a group while the block runs.

    Yields the connection that holds the lock, for queries.

    Raises:
        RefreshRunning: another one runs.
    """
    busy = partial(
        RefreshRunning, f"Another refresh of group {name} is running.", group=name
    )
    return locks.alone(site, "snaptide.refresh", name, busy)


_FOUND = select(
    _group.c.name,
    _group.c.master,
    _group.c.master_id,
    sa.cast(_group.c.position, Text).label("position"),
    _group.c.incarnation,
    _group.c.last_error,
    columns.draws_from(_group.c.master).label("numbered"),
    sa.exists().where(route.c.destination == _group.c.master).label("has_queues"),
    to_push.may_wait(_group.c.master).label("waits"),
    sa.exists(select(catalog.former_master)).label("has_left"),
    sa.exists()
    .where(catalog.promise.c.refresh_group == _group.c.name)
    .label("has_promise"),
    sa.exists()
    .where(catalog.promise.c.refresh_group == _group.c.name, catalog.promise.c.repair)
    .label("repairs"),
).where(_group.c.name == sa.bindparam("its_group", type_=Text))
_FIND = Prepared(_FOUND)
_LOCK = Prepared(
    select(_group.c.master, sa.cast(_group.c.position, Text).label("position"))
    .where(_group.c.name == sa.bindparam("its_group", type_=Text))
    .with_for_update(key_share=True)
)

#: The group that is called `its_group`, for statements that read more.
SEEN = as_json(_FOUND, "its_group")
