"""Ends transactions that an interrupted change of a group has left prepared.

The master definition site has decided by its own commit, or has not. It is asked, also
by sites that were to join or to leave: no later command would come to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import sqlalchemy as sa
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, select
from sqlalchemy.exc import OperationalError

from groups import group as groups
from groups.catalog import replication_group
from groups.errors import DecidedElsewhere, GroupChanging
from groups.everywhere import Branch, exclusively, prepared
from groups.group import Group
from masters.contracts import look
from sites import Site
from sites.sessions import identity
from sites.sessions.prepared import Prepared
from sites.tables import locks
from snapshots.creating import answers
from synchronous import recovery


def end_prepared(home: Site, masters: Sequence[str], group: UUID) -> None:
    """End transactions prepared at masters of one group. Call it `exclusively`.

    Whoever is changing the group has locked its row, and may still decide: the session
    that kept us away may have been ended. Until all are ended, nobody else decides.

    Parameters:
        home: the master definition site.

    Raises:
        GroupChanging: another session is about to decide.
        DecidedElsewhere: not this one has decided, but another of its name.
    """
    with identity.confirmed(home) as connection:
        known = unchanging(connection, group)
        home_id = identity.read(connection).site_id
        for master in masters:
            with home.peer(master).session() as there:
                for gid, branch in prepared(there).items():
                    if branch.group == group:
                        _refuse_another(gid, branch, master, home_id)
                        _end(there, gid, branch, master, known)


def unchanging(connection: Connection, group: UUID) -> Group | None:
    """A group as a master has it, locked; None if it has left it, or it was dropped.

    Raises:
        GroupChanging: another session is about to change it there.
    """
    head = replication_group.c
    mine = select(head.id).where(head.id == group).with_for_update()
    locks.briefly(connection)
    try:
        connection.execute(mine)
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        raise GroupChanging(
            f"Another command is changing group {group}.", group=str(group)
        ) from None
    return groups.find_by_id(connection, group)


def _refuse_another(gid: str, branch: Branch, master: str, home_id: UUID) -> None:
    """Make sure that a definition site is the database that decides on a branch."""
    if branch.home_id in (None, home_id):
        return
    raise DecidedElsewhere(
        f"Site name {branch.home} leads to another database than the one that was "
        f"changing group {branch.group}. What it did at {master} stays prepared there, "
        f"as transaction {gid}.",
        site=branch.home,
    )


def _end(
    there: Connection, gid: str, branch: Branch, master: str, known: Group | None
) -> None:
    there.rollback()
    if _decided(branch, master, known):
        there.commit_prepared(gid, recover=True)
    else:
        there.rollback_prepared(gid, recover=True)


def finish(site: Site) -> None:
    """End transactions prepared at a site, of whichever groups.

    A group that another session is changing is left to that session.

    Raises:
        SiteUnreachable: the site, or a definition site that has to be asked, is away.
        DecidedElsewhere: another has the name of a definition site now; those of other
            groups are ended.
    """
    with site.transaction() as connection:
        left = {(one.home, one.group) for one in prepared(connection).values()}
    refused: DecidedElsewhere | None = None
    for home, group in sorted(left):
        try:
            finish_group(site, home, group)
        except DecidedElsewhere as error:
            refused = error
    if refused is not None:
        raise refused


def finish_group(site: Site, home: str, group: UUID) -> None:
    """End what an interrupted change of one group has left prepared at a site.

    Parameters:
        home: its master definition site.
    """
    with suppress(GroupChanging), exclusively(site.peer(home), group):
        end_prepared(site.peer(home), [site.name], group)


def may_have_work(connection: Connection) -> bool:
    """Whether a site has anything for `groups.tasks.recover` to do.

    That finds all of it in the site's own catalog: what is prepared there or decided
    there, its contracts and what is promised to it.
    """
    return bool(_MAY_HAVE_WORK.run(connection).scalar())


_MAY_HAVE_WORK = Prepared(
    select(sa.or_(recovery.MAY_WAIT, look.KEEPS_CONTRACTS, answers.IS_PROMISED))
)


def undo_prepared(site: Site, group: UUID) -> None:
    """Roll back transactions prepared at a site that leaves a group, decided or not.

    This is for when no site can be asked: they would keep their locks forever.
    """
    with site.session() as connection:
        for gid, branch in prepared(connection).items():
            if branch.group == group:
                connection.rollback()
                connection.rollback_prepared(gid, recover=True)


def _decided(branch: Branch, master: str, known: Group | None) -> bool:
    """Whether the definition site has committed the change that a branch belongs to.

    Parameters:
        known: the group as it is there; None if it was dropped.
    """
    member = known is not None and master in known.names
    if branch.leaves:
        return not member
    return member and known is not None and branch.version <= known.version
