"""The input of one refresh: a group, its snapshots as they are now, and the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from deferred.batches import reconcile
from deferred.options import RefreshOptions
from deferred.parked import error_queue
from sites import names
from sites.names import QualifiedName
from sites.sessions.identity import Identity
from sites.sessions.peers import Look
from sites.sessions.site import Site
from sites.words import counted
from snapshots.definitions import parents, refresh_group, snapshot
from snapshots.definitions.behind import Behind
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import ErrorsAtMaster, WrongMethod
from snapshots.steps import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One refresh of one group."""

    site: Site
    master: Site
    #: who the site is and what it remembers of its masters
    here: Look
    group: RefreshGroup
    members: tuple[Snapshot, ...]
    methods: Mapping[str, str]
    options: RefreshOptions
    #: how long it has taken so far
    steps: Steps
    #: snapshots of the group that are left behind (`snapshots.refreshing.possible`);
    #: they are not among the members
    left: tuple[tuple[Snapshot, Behind], ...] = ()

    @property
    def who(self) -> Identity:
        """The site."""
        return self.here.identity

    def tables(self) -> list[QualifiedName]:
        """The tables of the master that decide what the group holds, each once."""
        return parents.tables(self.members)


def read(
    connection: Connection,
    site: Site,
    group_name: str,
    named: list[str],
    options: RefreshOptions,
    steps: Steps,
) -> Task:
    here = reconcile.look(
        connection,
        site.name,
        also=(refresh_group.SEEN, snapshot.MEMBERS),
        its_group=group_name,
    )
    group = refresh_group.of(here.row.its_group)
    members = snapshot.of(here.row.members)
    if group is None or not members:
        raise UnknownSnapshot(f"Refresh group {group_name} has no snapshots.")
    keys = [m.key for m in members]
    if named != [group_name]:
        keys = [str(names.parse(name)) for name in named]
    return Task(
        site=site,
        master=site.peer(group.master),
        here=here,
        group=group,
        members=members,
        methods=_methods(keys, options.method),
        options=options,
        steps=steps,
    )


def _methods(keys: list[str], method: str) -> dict[str, str]:
    if set(method.lower()) - set("fc?") or len(method) > len(keys):
        raise WrongMethod(
            f"{method!r} is not a refresh method for {len(keys)} snapshots."
        )
    return dict(zip(keys, method.lower(), strict=False))


def refuse_errors(task: Task) -> None:
    tables = [m.master for m in task.members]
    with task.master.session() as connection:
        parked = error_queue.parked(connection, task.who.site_id, tables)
    if parked:
        raise ErrorsAtMaster(
            f"The error queue of {task.master.name} holds "
            f"{counted(parked, 'transaction')} of "
            f"{task.site.name}.",
            transactions=parked,
        )
