"""Contact of a site with a master before both are changed: is either of them older?

As a push does it. What a restored database has forgotten is noticed by the tokens of
`sites.peers`: they are compared whenever a connection is new, since nobody restores a
database without ending its sessions. They are renewed when one of the servers was
started since, and once a minute.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection, func, select

from deferred import agreement
from deferred.coordinator import line
from deferred.coordinator.knowledge import Contact, Knowledge
from sites import Site, identity, peers

#: Seconds between two new tokens: a copy that is older than that is known as such.
RENEWAL = 60.0

_KEY = "snaptide.agreed"


def ensure(
    knowledge: Knowledge, connection: Connection, master: Site, timeout: float
) -> None:
    """Agree with a master unless this connection of the site's has, a while ago.

    Raises:
        As `agree` does.
    """
    agreed = connection.info.setdefault(_KEY, set())
    if master.name not in agreed or knowledge.is_contact_old(master.name):
        agree(knowledge, master, timeout)
        agreed.add(master.name)


def agree(knowledge: Knowledge, master: Site, timeout: float) -> None:
    """Make sure that site and master remember each other.

    Commits at both, over connections of its own.

    Parameters:
        timeout: seconds that the master may take to answer.

    Raises:
        SiteRestored, SiteReplaced, SiteChanged: one of the two is not what it was.
        CannotTell, PastRetention: a restored one needs more than asking.
    """
    site = knowledge.site
    with site.connect() as origin, line.connect(master, timeout) as plain:
        target = plain.execution_options(isolation_level="READ COMMITTED")
        me = identity.confirm(origin, site.name)
        origin.rollback()
        them = agreement.confirm_for_refresh(origin, target, me, master.name)
        contact = Contact(
            until=time.monotonic() + RENEWAL, servers=(_start(origin), _start(target))
        )
        if knowledge.is_contact_old(master.name, contact.servers):
            peers.meet(origin, target, me, them)
            knowledge.contacts[master.name] = contact
    knowledge.site_is(me)


def _start(connection: Connection) -> object:
    """When a server was started. Ends the transaction."""
    started = connection.scalar(select(func.pg_postmaster_start_time()))
    connection.rollback()
    return started
