"""Checks, before a site and its master are changed, that neither was restored.

It does so as a push does: the tokens of `sites.sessions.peers` show that a restored
database has forgotten a contact. They are compared whenever a connection is new,
because a restore ends all sessions of a database. They are renewed once a minute, and
when one of the servers was started since.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection, func, select

from deferred.batches import reconcile
from sites import Site
from sites.sessions import contacts
from synchronous import master_connection
from synchronous.site_cache import Contact, SiteCache

#: Seconds between two new tokens: a copy that is older than that is recognized.
RENEWAL = 60.0

_KEY = "snaptide.agreed"


def ensure(
    site_cache: SiteCache, at_site: Connection, taken: Connection, master: Site
) -> None:
    """Agree with a master, unless these two connections have done so recently.

    Parameters:
        at_site: the coordinated connection; only notes about it are used.
        taken: the connection to the master, in no transaction.

    Raises:
        As `confirm_contact` does.
    """
    agreed = at_site.info.setdefault(_KEY, set())
    if (
        _KEY not in taken.info
        or master.name not in agreed
        or site_cache.is_contact_old(master.name)
    ):
        confirm_contact(site_cache, taken, master)
        agreed.add(master.name)
        taken.info[_KEY] = True


def confirm_contact(site_cache: SiteCache, taken: Connection, master: Site) -> None:
    """Make sure that site and master remember each other.

    Commits at both; at the site over a connection of its own.

    Raises:
        SiteRestored, SiteReplaced, SiteChanged: a side was restored or replaced.
        NotAMember: changes that we apply there would count as changes of users.
        CannotTell, PastRetention: a restored side cannot be reconciled by asking.
    """
    site = site_cache.site
    with site.session() as origin, master_connection.in_transactions(taken) as target:
        here = reconcile.look(origin, site.name)
        origin.rollback()
        pair, _ = reconcile.confirm_for_refresh(origin, target, here, master.name)
        contact = Contact(
            until=time.monotonic() + RENEWAL, servers=(_start(origin), _start(target))
        )
        if site_cache.is_contact_old(master.name, contact.servers):
            contacts.meet(origin, target, pair)()
            site_cache.contacts[master.name] = contact
    site_cache.site_is(here.identity)


def _start(connection: Connection) -> object:
    """When a server was started. Ends the transaction."""
    started = connection.scalar(select(func.pg_postmaster_start_time()))
    connection.rollback()
    return started
