"""Checks that workers cannot take all connections of a master from its users."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select, text

from masters.catalog import registered_snapshot
from masters.log import registration
from sites.sessions.site import MOST
from sites.words import counted
from snaptide.doctor.finding import Finding, warning

#: What the server has for ordinary roles; the lowest limit of ours that holds, which is
#: none for superusers.
_LIMITS = text(
    "SELECT current_setting('max_connections')::int"
    " - current_setting('superuser_reserved_connections')::int"
    " - current_setting('reserved_connections')::int AS room,"
    " NOT r.rolsuper AND (r.rolconnlimit >= 0 OR d.datconnlimit >= 0) AS is_limited"
    " FROM pg_roles r, pg_database d"
    " WHERE r.rolname = session_user AND d.datname = current_database()"
)


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """A finding if workers of all sites could open more than the server allows."""
    names = func.count(registered_snapshot.c.site_name.distinct())
    sites = connection.scalar(select(names).where(registration.OF_SITE)) or 0
    limits = connection.execute(_LIMITS).one()
    if sites * MOST > limits.room and not limits.is_limited:
        yield warning(
            site,
            "max_connections",
            f"{counted(sites, 'site')} have snapshots of it: if each has a worker of "
            f"its own, these can open {sites * MOST:,} connections. The server allows "
            f"{limits.room:,}, and nothing keeps some of them free for users.",
            "ALTER ROLE ... CONNECTION LIMIT, for the role of Snaptide, which must not "
            "be a superuser; docs/howto/many-sites.md says how many it needs.",
        )
