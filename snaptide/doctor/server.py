"""Checks a site's schema, its identity, its role and its server's settings."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from sites.sessions import identity
from snaptide import revisions
from snaptide.doctor.finding import Finding, Severity


def check(connection: Connection, site: str) -> list[Finding]:
    """Findings about schema, identity, role and settings.

    Raises:
        UnsupportedDatabase: the site is a standby.
    """
    revision, head = revisions.of_site(connection), revisions.head()
    if revision is None:
        return [
            Finding(
                site=site,
                severity=Severity.FATAL,
                subject="schema",
                what="There is no schema snaptide.",
                todo=f"snaptide site init {site}",
            )
        ]
    if revision != head:
        return [_not_at_head(site, revision, head)]
    return [
        *_identity(connection, site),
        *_role(connection, site),
        *_settings(connection, site),
    ]


def _not_at_head(site: str, revision: str, head: str) -> Finding:
    return Finding(
        site=site,
        severity=Severity.FATAL,
        subject="schema",
        what=f"The schema is at {revision}, but this program needs {head}.",
        todo="Install the newer Snaptide here."
        if revisions.is_newer(revision)
        else f"snaptide site init {site}",
    )


def _identity(connection: Connection, site: str) -> Iterator[Finding]:
    recorded = identity.read(connection).name
    if recorded != site:
        yield Finding(
            site=site,
            severity=Severity.FATAL,
            subject="identity",
            what=f"This database says that it is site {recorded}.",
            todo=f"Correct the url of [sites.{site}]. If it is a copy that you want to "
            f"keep beside {recorded}, run: snaptide site check {site} --repair",
        )
        return
    for what, (before, now) in identity.differences(connection).items():
        yield Finding(
            site=site,
            severity=Severity.FATAL,
            subject="identity",
            what=f"The {what.replace('_', ' ')} was {before} and is {now}: the "
            "database was restored, cloned, promoted or upgraded.",
            todo="Make sure that no other database acts as this site, then run: "
            f"snaptide site check {site} --repair. Queued changes are kept.",
        )


def _role(connection: Connection, site: str) -> Iterator[Finding]:
    # A user that only looks applies nothing, and does not need this role.
    if not connection.scalar(text(_MAY_MOVE_MARKERS)):
        return
    member = connection.scalar(
        text(
            "SELECT pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles"
            " WHERE rolname = 'snaptide_apply'"
        )
    )
    if not member:
        what = (
            "does not exist" if member is None else "is not granted to Snaptide's user"
        )
        yield Finding(
            site=site,
            severity=Severity.ERROR,
            subject="role snaptide_apply",
            what=f"The role {what}: changes that Snaptide applies would be queued "
            "again.",
            todo=f"snaptide site init {site}, as a user who can create roles",
        )


_MAY_MOVE_MARKERS = (
    "SELECT has_table_privilege(session_user, 'snaptide.push_marker', 'UPDATE')"
)


def _settings(connection: Connection, site: str) -> Iterator[Finding]:
    if connection.scalar(text("SHOW max_prepared_transactions")) == "0":
        yield Finding(
            site=site,
            severity=Severity.WARNING,
            subject="max_prepared_transactions",
            what="It is 0: this database cannot take part in synchronous propagation.",
            todo="ALTER SYSTEM SET max_prepared_transactions = 64, then restart the "
            "server.",
        )
    if connection.scalar(text("SHOW fsync")) == "off":
        yield Finding(
            site=site,
            severity=Severity.WARNING,
            subject="fsync",
            what="It is off: a crash of the machine may lose pushed changes.",
            todo="ALTER SYSTEM SET fsync = on, then restart the server.",
        )
