"""Registers the snapshots of a group, so that the master keeps its logs for them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection

from masters.log import registration
from masters.log.catalog import find_log
from sites.capture import position
from snapshots.definitions import parents
from snapshots.definitions.snapshot import Snapshot
from snapshots.refreshing.task import Task


def register_new(connection: Connection, task: Task, known: Collection[str]) -> None:
    """Register the snapshots for which the master does not keep its log yet; commits.

    These are about to be loaded; or the master forgot them, and they will be
    compared completely.

    Parameters:
        connection: to the master, outside a transaction.
        known: those that were registered a moment ago.
    """
    new = [m.key for m in task.members if not (m.loaded and m.key in known)]
    if not new:
        return
    with connection.begin():
        for member in task.members:
            if member.key not in known:
                _register(connection, task, member)
        here = position.current(connection)
        registration.advance(connection, task.who.site_id, new, here)


def registered(
    connection: Connection, site_id: uuid.UUID, members: Sequence[Snapshot]
) -> set[str]:
    """The snapshots of a site for which the master keeps all logs that they need."""
    found = registration.registered(connection, site_id, [m.key for m in members])
    return kept(found, members)


def kept(found: Mapping[str, set[str]], members: Sequence[Snapshot]) -> set[str]:
    """The same, by the snapshots that are registered and the tables that these ask."""
    return {m.key for m in members if found.get(m.key) == {*map(str, parents.asked(m))}}


def _register(connection: Connection, task: Task, member: Snapshot) -> None:
    if find_log(connection, member.master) is None:
        return
    registration.register(
        connection,
        site_id=task.who.site_id,
        site_name=task.site.name,
        snapshot=member.key,
        table=member.master,
        parents=[*parents.asked(member)],
        updatable=member.updatable,
    )
