"""All checks of a site, in their order."""

from __future__ import annotations

from sqlalchemy import Connection

from sites import Site
from sites.errors import SnaptideError
from snaptide import reading
from snaptide.asking import asking
from snaptide.doctor import (
    bloat,
    captures,
    columns,
    compared,
    connections,
    definitions,
    different,
    grouped,
    guarded,
    leftovers,
    numbers,
    pages,
    peers,
    registrations,
    server,
    stopped,
    user_views,
    written,
)
from snaptide.doctor.finding import Finding, Severity, fatal


def check_site(site: Site, *, everyone: bool = True) -> list[Finding]:
    """Check that a site answers, has the right schema, and is the database it was.

    Parameters:
        everyone: ask all other sites about it, not only those that it remembers.
    """
    try:
        with asking(site) as connection:
            found = server.check(connection, site.name)
            if all(finding.severity is not Severity.FATAL for finding in found):
                found += peers.check(connection, site, everyone=everyone)
    except SnaptideError as error:
        return [_failed(site, error)]
    return found


def examine(site: Site, *, informed: bool = False) -> list[Finding]:
    """All findings about a site; asks its masters and snapshot sites, too.

    Parameters:
        informed: also say what is no problem, as when snapshots were last checked.
    """
    # Drop the general findings that a site is away: the check that needs it says so.
    found = [f for f in check_site(site, everyone=False) if f.subject != peers.AWAY]
    if any(f.severity is Severity.FATAL and f.site == site.name for f in found):
        return found
    try:
        with asking(site) as connection:
            found += _examine(connection, site)
        found += different.check(site, tables=True)
    except SnaptideError as error:
        found.append(_failed(site, error))
    return [f for f in found if informed or f.severity is not Severity.INFO]


def _examine(connection: Connection, site: Site) -> list[Finding]:
    return [
        *captures.check(connection, site.name),
        *guarded.check(connection, site.name),
        *columns.check(connection, site.name),
        *written.check(connection, site.name),
        *grouped.check(connection, site.name),
        *registrations.check(connection, site),
        *connections.check(connection, site.name),
        *definitions.check(connection, site),
        *user_views.check(connection, site.name),
        *numbers.check(connection, site.name),
        *compared.check(connection, site.name),
        *pages.check(connection, site.name),
        *leftovers.check(connection, site.name),
        *stopped.check(reading.read(connection), site.name),
        *bloat.check(connection, site.name),
    ]


def _failed(site: Site, error: SnaptideError) -> Finding:
    return fatal(site.name, error.code, error.message, error.hint)
