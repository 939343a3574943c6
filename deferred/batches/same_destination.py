"""Which database a site's changes are queued for.

A site knows its master by a name that the settings lead to an address. Where that leads
to another database, it is none of ours to tell which of the two is meant.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, any_, or_, select

from deferred.catalog import destination
from deferred.queues.queue import list_queues
from sites.catalog import peer
from sites.errors import OtherDatabase
from sites.sessions.identity import Identity
from sites.sessions.peers import Look
from sites.sessions.site import autocommit


def refuse_another(
    origin: Connection, here: Look, there: Look, agreed: str | None
) -> None:
    """Make sure that a destination is the database that changes were queued for.

    Changes of replication groups are for whoever is a master of the group, which
    another database becomes under the name of one that is lost. One that is in any
    group tells by itself which changes it takes.

    The connection must be outside a transaction, and is so afterwards.

    Parameters:
        agreed: the incarnation of the destination that the site has agreed with.

    Raises:
        OtherDatabase: it is another, under the same name.
    """
    them = there.identity
    if not _stood_for_another(here, agreed, them):
        return
    with autocommit(origin):
        queues = list_queues(origin, them.name)
    if any(queue.group_id is None or not there.row.concerned for queue in queues):
        raise OtherDatabase(
            f"Site name {them.name} leads to another database now than the one that "
            f"the changes of {here.identity.name} are queued for.",
            site=them.name,
        )


def _stood_for_another(here: Look, agreed: str | None, them: Identity) -> bool:
    """Whether a destination's name has stood for another database than this one.

    If the site has agreed with a destination of that name, then for which one.
    """
    if agreed is None and them.site_id in here.memories:
        return False
    return any(
        agreed is None or agreed in map(str, (one.incarnation, *one.former))
        for site_id, one in here.memories.items()
        if site_id != them.site_id and one.name == them.name
    )


def agreed_with(connection: Connection, name: str) -> uuid.UUID | None:
    """The id of the master that a destination is; None before they have agreed."""
    one = destination.c.incarnation
    its = peer.c
    found = (
        select(its.site_id)
        .join_from(
            destination, peer, or_(its.incarnation == one, one == any_(its.former))
        )
        .where(destination.c.name == name, its.role == "master")
    )
    return connection.scalars(found).first()


def may_be(connection: Connection, name: str, known: Mapping[str, Any]) -> bool:
    """Whether a destination is the database that was noted, as far as is known.

    Parameters:
        known: has its `site_id`, if it was noted.
    """
    was, now = known.get("site_id"), agreed_with(connection, name)
    return None in (was, now) or was == str(now)
