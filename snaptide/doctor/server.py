"""Checks a site's schema, its identity, its role and its server's settings."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select, text

from sites.errors import TriggersSwitchedOff
from sites.sessions import identity, revisions
from snaptide.doctor.finding import Finding, error, fatal, warning


def check(connection: Connection, site: str) -> list[Finding]:
    """Findings about schema, identity, role and settings.

    Raises:
        UnsupportedDatabase: the site is a standby.
        ActsAsAnotherRole: our sessions there have not the rights of our user.
    """
    identity.refuse_other_role(connection)
    revision, head = revisions.of_site(connection), revisions.head()
    if revision is None:
        return [
            fatal(
                site,
                "schema",
                "There is no schema snaptide.",
                f"snaptide site init {site}",
            )
        ]
    if revision != head:
        return [_not_at_head(site, revision, head)]
    return [
        *_identity(connection, site),
        *_role(connection, site),
        *_sessions(connection, site),
        *_server(connection, site),
    ]


def _not_at_head(site: str, revision: str, head: str) -> Finding:
    return fatal(
        site,
        "schema",
        f"The schema is at {revision}, but this program needs {head}.",
        "Install the newer Snaptide here."
        if revisions.is_newer(revision)
        else f"snaptide site init {site}",
    )


def _identity(connection: Connection, site: str) -> Iterator[Finding]:
    recorded = identity.read(connection).name
    if recorded != site:
        yield fatal(
            site,
            "identity",
            f"This database says that it is site {recorded}.",
            f"Correct the url of [sites.{site}]. If it is a copy that you want to "
            f"keep beside {recorded}, run: snaptide site check {site} --repair",
        )
        return
    for what, (before, now) in identity.differences(connection).items():
        yield fatal(
            site,
            "identity",
            f"The {what.replace('_', ' ')} was {before} and is {now}: the "
            "database was restored, cloned, promoted or upgraded.",
            "Make sure that no other database acts as this site, then run: "
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
        yield error(
            site,
            "role snaptide_apply",
            f"The role {what}: changes that Snaptide applies would be queued again.",
            f"snaptide site init {site}, as a user who can create roles",
        )


_MAY_MOVE_MARKERS = (
    "SELECT has_table_privilege(session_user, 'snaptide.push_marker', 'UPDATE')"
)


def _sessions(connection: Connection, site: str) -> Iterator[Finding]:
    if connection.scalar(text("SHOW session_replication_role")) == "replica":
        yield error(
            site,
            "session_replication_role",
            "It is replica for Snaptide's sessions: pushes and refreshes are refused.",
            TriggersSwitchedOff.hint,
        )
    if connection.scalar(text("SHOW default_transaction_read_only")) == "on":
        yield error(
            site,
            "default_transaction_read_only",
            "It is on for Snaptide's sessions: pushes, and refreshes that have "
            "something to do, fail. Queued changes are kept.",
            "Take it back, for one of them: ALTER DATABASE NAME RESET "
            "default_transaction_read_only; ALTER ROLE NAME RESET ...; ALTER SYSTEM "
            "RESET ...; some services set it when the disk is full. Then restart "
            "workers.",
        )
    # PostgreSQL has it from 17 on.
    limit = connection.scalar(select(func.current_setting("transaction_timeout", True)))
    if limit not in (None, "0"):
        yield warning(
            site,
            "transaction_timeout",
            f"It is {limit} for Snaptide's sessions: a refresh, a push or a check with "
            "a longer transaction fails each time.",
            "ALTER ROLE ... SET transaction_timeout = 0, for the role of Snaptide.",
        )


def _server(connection: Connection, site: str) -> Iterator[Finding]:
    if connection.scalar(text("SHOW server_encoding")) == "SQL_ASCII":
        yield warning(
            site,
            "encoding",
            "The database has the encoding SQL_ASCII, which takes any bytes: a push or "
            "refresh that meets a text which is not valid in UTF-8 stops.",
            "Dump the database, load it into one with the encoding UTF8, and repair "
            f"the site: snaptide site check {site} --repair",
        )
    if connection.scalar(text("SHOW max_prepared_transactions")) == "0":
        yield warning(
            site,
            "max_prepared_transactions",
            "It is 0: this database cannot take part in synchronous propagation.",
            "ALTER SYSTEM SET max_prepared_transactions = 64, then restart the server.",
        )
    if connection.scalar(text("SHOW fsync")) == "off":
        yield warning(
            site,
            "fsync",
            "It is off: a crash of the machine may lose pushed changes.",
            "ALTER SYSTEM SET fsync = on, then restart the server.",
        )
    usage = connection.scalar(select(func.pg_notification_queue_usage()))
    if usage is not None and usage >= _NEARLY_FULL:
        yield warning(
            site,
            "NOTIFY",
            f"The server's queue of notifications is {usage:.0%} full, because a "
            "session that listens has been in one transaction for long. While it is "
            "nearly full, commits at sites wake no worker and are pushed up to 30 "
            "seconds later; once it is full, commits of programs that notify fail.",
            "Find the session by SELECT pid, query FROM pg_stat_activity WHERE "
            "xact_start IS NOT NULL ORDER BY xact_start, in whatever database, and end "
            "it. The server's log names it, too.",
        )


#: How full PostgreSQL lets its queue of notifications get before it warns in its log.
_NEARLY_FULL = 0.5
