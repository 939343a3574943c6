"""Shows people the state of a group and its masters."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from deferred.queues.queue import undelivered_calls
from groups import group as groups
from groups import table_queue
from groups.differences import Difference, differences
from groups.errors import DecidedElsewhere, GroupChanging
from groups.everywhere import prepared
from groups.group import Group
from groups.paths import Path
from groups.relay import holds
from groups.relay.arrivals import Arrival, arrivals
from groups.relay.holds import QuietGroup
from groups.unfinished import finish
from sites import QualifiedName, Site
from sites.errors import SiteUnreachable, SnaptideError
from sites.sessions import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterReport:
    """One master of a group, as far as it can be reached."""

    master: str
    target_type: str
    #: the version of the group's description there; None if it does not answer
    version: int | None
    #: calls that wait there, by the master that they go to
    waiting: dict[str, int]
    #: changes that have come there: of which master, and which one brought them
    arrived: tuple[Arrival, ...]
    #: since when all transactions for the group are held back there, and why
    quiet: QuietGroup | None
    #: rows that may be different there, because of a decision or DDL there
    different: tuple[Difference, ...] = ()
    #: why it does not answer, or is behind the master definition site
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """A group, and the state of each of its masters."""

    group: str
    definition_site: str
    version: int
    status: str
    status_by: str | None
    status_since: datetime
    tables: tuple[str, ...]
    masters: tuple[MasterReport, ...]
    paths: tuple[Path, ...]


def list_groups(
    site: Site, *, settle: bool = True, limit: int | None = None, offset: int = 0
) -> list[Group]:
    """The groups that a site is a master of, by name.

    Parameters:
        settle: end transactions that an interrupted command has left prepared there,
            if the definition site answers. Otherwise, nothing is written.
        limit: at most so many; None is all of them.
        offset: leave out so many before.
    """
    if settle:
        with suppress(SiteUnreachable, DecidedElsewhere):
            finish(site)
    with identity.initialised(site) as connection:
        names = groups.names(connection, limit=limit, offset=offset)
        found = [groups.find(connection, name) for name in names]
        return [group for group in found if group is not None]


def count_groups(site: Site) -> int:
    """How many groups a site is a master of."""
    with identity.initialised(site) as connection:
        return groups.count(connection)


def masters_of_tables(site: Site, *, settle: bool = True) -> dict[QualifiedName, int]:
    """How many masters write to each table that is in a group here.

    Parameters:
        settle: as `list_groups` takes it.
    """
    return {
        table: len(group.writing)
        for group in list_groups(site, settle=settle)
        for table in group.tables
    }


def find_group(site: Site, name: str) -> Group:
    """A group as one of its masters knows it.

    Raises:
        NoSuchGroup: the site is no master of it.
    """
    with identity.initialised(site) as connection:
        return groups.get(connection, site.name, name)


def show_group(site: Site, name: str) -> GroupReport:
    """A group as one of its masters knows it, and the state of all of them.

    Transactions that an interrupted command has left prepared at them are ended.

    Raises:
        NoSuchGroup: the site is no master of it.
    """
    group = find_group(site, name)
    return GroupReport(
        group=group.name,
        definition_site=group.definition_site,
        version=group.version,
        status=group.status,
        status_by=group.status_by,
        status_since=group.status_since,
        tables=tuple(map(str, group.tables)),
        masters=tuple(show_master(site, group, one.name) for one in group.masters),
        paths=group.paths,
    )


def show_master(
    site: Site, group: Group, name: str, *, settle: bool = True
) -> MasterReport:
    """The state of one master of a group.

    Parameters:
        site: the site that asks it, as a peer.
        settle: end transactions that an interrupted command has left prepared there,
            and take rows that are equal by now off its list. Otherwise, nothing is
            written, and no other master is asked.
    """
    version, waiting, problem = None, dict[str, int](), None
    arrived: list[Arrival] = []
    held: list[QuietGroup] = []
    different: list[Difference] = []
    try:
        if settle:
            finish(site.peer(name))
        # Only who may write there can confirm that it is the same database.
        opened = identity.confirmed if settle else identity.initialised
        with opened(site.peer(name)) as connection:
            if not settle:
                _refuse_change(connection, group)
            there = groups.get(connection, name, group.name)
            version = there.version
            if version != group.version:
                problem = f"has version {version} of the group, not {group.version}"
            arrived = arrivals(connection, group.id)
            held = holds.listed(connection, group.id)
            if not group.master(name).joined:
                problem = "is joining: its rows are not there yet"
            if any(one.source == name for one in arrived):
                problem = "changes of its own have come back"
            for queue in table_queue.found(connection, *group.tables):
                calls = undelivered_calls(connection, queue)
                waiting[queue.destination] = waiting.get(queue.destination, 0) + calls
        different = differences(site.peer(name), group.name, compare=settle)
    except SnaptideError as error:
        problem = error.message
    return MasterReport(
        master=name,
        target_type=group.master(name).target_type,
        version=version,
        waiting=waiting,
        arrived=tuple(arrived),
        quiet=held[0] if held else None,
        different=tuple(different),
        problem=problem,
    )


def _refuse_change(connection: Connection, group: Group) -> None:
    """Read nothing that a prepared change of the group may have locked.

    Raises:
        GroupChanging: such a change runs at the master, or was interrupted.
    """
    if any(one.group == group.id for one in prepared(connection).values()):
        raise GroupChanging(
            "A change of the group is prepared there. If no command runs,"
            " snaptide group show ends it."
        )
