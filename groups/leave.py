"""Lets a site leave a group that no longer counts it among its masters."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection

from deferred.queues.queue import undelivered_calls
from groups import group as groups
from groups import table_queue
from groups.arrange import leave
from groups.change import lock_writers
from groups.errors import DecidedElsewhere, NoSuchGroup, StillMaster
from groups.everywhere import prepared
from groups.group import Group
from groups.unfinished import finish, finish_group, undo_prepared
from sites import Site
from sites.errors import SiteUnreachable
from sites.sessions import identity
from sites.tables import locks


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReport:
    """A site that has left a group."""

    group: str
    master: str
    #: calls that are given up, by the master that they waited for
    given_up: dict[str, int]


def leave_group(site: Site, name: str, *, force: bool = False) -> LeaveReport:
    """Have a site forget a group whose master definition site has forgotten the site.

    That is so if the site was away when it was taken out of the group, or if the
    definition site was restored to before the site joined. Until the site leaves, its
    pushes to masters of the group are refused, whatever else they carry. Its tables
    stay as they are: changes that it had not sent are in their rows, but in no queue
    any more. Users who write to the tables wait for a moment.

    Parameters:
        site: the site that leaves; no other is changed.
        name: the group's name. A site that was to join does not know it yet: with
            `force`, the group's id rolls back what was prepared for that.
        force: leave even if the master definition site cannot be asked, because it is
            away or another database has its name. Transactions that a command there
            has left prepared here are then rolled back.

    Raises:
        NoSuchGroup: the site does not know the group.
        CannotReplicate: it is the master definition site.
        StillMaster: the master definition site has it among the masters.
        SiteUnreachable: the definition site is away, and `force` is not set.
        DecidedElsewhere: another has its name, and `force` is not set.
    """
    # What it cannot end of other groups does not matter here.
    with suppress(SiteUnreachable, DecidedElsewhere):
        finish(site)
    try:
        with identity.confirmed(site) as connection:
            group = groups.get(connection, site.name, name)
    except NoSuchGroup:
        if not _leave_unjoined(site, name, force=force):
            raise
        return LeaveReport(group=name, master=site.name, given_up={})
    _refuse_member(site, group, force=force)
    for attempt in locks.patiently():
        with attempt, site.transaction() as connection:
            locks.briefly(connection)
            identity.confirm(connection, site.name)
            group = groups.get(connection, site.name, name)
            lock_writers({site.name: connection}, group.tables)
            given_up = _undelivered(connection, group)
            leave(connection, group)
    return LeaveReport(group=name, master=site.name, given_up=given_up)


def _leave_unjoined(site: Site, group: str, *, force: bool) -> bool:
    """Roll back what a site was to join a group with; whether there was anything.

    What the definition site can still be asked about is ended as that says.

    Parameters:
        group: its id.
    """
    rolled_back = False
    with site.session() as connection:
        left = {one for one in prepared(connection).values() if str(one.group) == group}
    for branch in left:
        try:
            finish_group(site, branch.home, branch.group)
        except (SiteUnreachable, DecidedElsewhere):
            if not force:
                raise
            undo_prepared(site, branch.group)
            rolled_back = True
    return rolled_back


def _refuse_member(site: Site, group: Group, *, force: bool) -> None:
    home = group.definition_site
    groups.refuse_definition_site(group, site.name)
    try:
        finish_group(site, home, group.id)
        with identity.confirmed(site.peer(home)) as connection:
            known = groups.find_by_id(connection, group.id)
    except (SiteUnreachable, DecidedElsewhere):
        if not force:
            raise
        undo_prepared(site, group.id)
        return
    if known is not None and site.name in known.names:
        raise StillMaster(
            f"According to {home}, {site.name} is still a master of group "
            f"{group.name}.",
            group=group.name,
            master=site.name,
        )


def _undelivered(connection: Connection, group: Group) -> dict[str, int]:
    found: Counter[str] = Counter()
    for queue in table_queue.found(connection, *group.tables):
        found[queue.destination] += undelivered_calls(connection, queue)
    return dict(found)
