"""Checks that a site and the others agree on their last contact and what was pushed."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from deferred.batches import reconcile
from sites import Site
from sites.catalog import peer
from sites.errors import SnaptideError
from sites.sessions import contacts, identity
from sites.sessions.identity import Identity
from snaptide.asking import asking
from snaptide.doctor.finding import Finding, fatal, warning

#: Subjects of findings: a site that is older than others remember; calls that are
#: purged or cannot be told apart; sites that cannot be asked.
IDENTITY = "identity"
GAP = "queue"
AWAY = "other sites"


def check(
    connection: Connection, site: Site, *, everyone: bool = True
) -> Iterator[Finding]:
    """Findings about this site and those it met; each names the site to repair.

    Parameters:
        everyone: ask all sites of the settings, not only those that this one
            remembers: a restored site may have forgotten a site that remembers it.
    """
    me = identity.read(connection)
    known = set(connection.scalars(select(peer.c.name)))
    connection.rollback()
    for name, other in site.directory.items():
        if name == site.name or not (everyone or name in known):
            continue
        try:
            with asking(other) as there:
                yield from _between(connection, there, me, name)
        except SnaptideError as error:
            if name in known:
                yield warning(
                    site.name,
                    AWAY,
                    f"Site {name} could not be checked: {error.message}",
                    f"When it answers again: snaptide site check {site.name}",
                )


def _between(
    here: Connection, there: Connection, me: Identity, name: str
) -> Iterator[Finding]:
    them = identity.read(there)
    there.rollback()
    if them.name != name:
        return
    for site, master, first, second in (
        (here, there, me, them),
        (there, here, them, me),
    ):
        pair = contacts.compare(site, master, first, second)
        if not pair.has_met:
            continue
        try:
            pair.confirm()
        except SnaptideError as error:
            yield _fatal(str(error.facts["site"]), IDENTITY, error)
            continue
        try:
            if not reconcile.is_reconciled(site, second):
                reconcile.check(site, master, first.site_id, second.name)
        except SnaptideError as error:
            yield _fatal(first.name, GAP, error)


def _fatal(site: str, subject: str, error: SnaptideError) -> Finding:
    return fatal(site, subject, error.message, error.hint.replace("NAME", site))
