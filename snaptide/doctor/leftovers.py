"""What stopped, was paused or was left behind."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select, text

from deferred.catalog import destination, error_transaction, schedule
from deferred.parked import quiet
from groups import Status
from groups.catalog import replication_group
from snapshots import catalog as snapshots
from snaptide.doctor.finding import Finding, Severity

#: Unlogged tables of ours that no session has locked: nobody works with them.
_STAGES = text(
    """
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = 'snaptide'::regnamespace AND c.relpersistence = 'u'
      AND c.relkind = 'r'
      AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.relation = c.oid)
      AND NOT EXISTS (SELECT FROM snaptide.activity)
    ORDER BY 1
    """
)


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about stages, destinations, schedules, groups and parked errors."""
    for name in connection.scalars(_STAGES):
        yield _warning(
            site,
            f"snaptide.{name}",
            "A stage table of a refresh that died is left over.",
            f'DROP TABLE snaptide."{name}"',
        )
    yield from _destinations(connection, site)
    yield from _schedules(connection, site)
    yield from _groups(connection, site)
    yield from _suspended(connection, site)
    yield from _quiet(connection, site)
    yield from _parked(connection, site)


def _destinations(connection: Connection, site: str) -> Iterator[Finding]:
    for row in connection.execute(select(destination).order_by("name")):
        if row.invalid_since:
            yield _warning(
                site,
                f"destination {row.name}",
                f"It is invalid, nothing is pushed: {row.invalid_reason}",
                f"snaptide destination validate {site} {row.name}",
            )
        elif row.disabled:
            yield _warning(
                site,
                f"destination {row.name}",
                "Propagation is disabled: changes stay in the queue.",
                f"snaptide push {site} {row.name} --enable",
            )
        elif row.last_error:
            yield _warning(
                site,
                f"destination {row.name}",
                f"The last push failed: {row.last_error}",
                f"snaptide push {site} {row.name}",
            )


def _schedules(connection: Connection, site: str) -> Iterator[Finding]:
    failed = select(schedule).where(schedule.c.last_error.is_not(None))
    for row in connection.execute(failed.order_by("kind", "subject")):
        yield _warning(
            site,
            f"schedule {row.kind} {row.subject}",
            f"The last run failed: {row.last_error}",
            f"snaptide schedule list {site}",
        )


def _groups(connection: Connection, site: str) -> Iterator[Finding]:
    group = snapshots.refresh_group
    failed = select(group).where(group.c.last_error.is_not(None))
    for row in connection.execute(failed.order_by("name")):
        yield _warning(
            site,
            f"refresh group {row.name}",
            f"The last refresh failed: {row.last_error}",
            f"snaptide refresh {site} {row.name}",
        )


def _suspended(connection: Connection, site: str) -> Iterator[Finding]:
    at = replication_group.c
    wanted = select(replication_group).where(at.status != Status.NORMAL)
    for row in connection.execute(wanted.order_by("name")):
        who = f" by {row.status_by}" if row.status_by else ""
        yield _warning(
            site,
            f"group {row.name}",
            f"It is {row.status}{who} since {row.status_since:%Y-%m-%d %H:%M} UTC: "
            "users are refused its tables.",
            f"snaptide group resume {row.definition_site} {row.name}",
        )


def _quiet(connection: Connection, site: str) -> Iterator[Finding]:
    known = {row.id: row for row in connection.execute(select(replication_group))}
    for one in quiet.listed(connection):
        group = known.get(one.group_id)
        if group is None:
            continue
        yield _warning(
            site,
            f"group {group.name}",
            f"{quiet.told(one)} What comes for it waits in the error queue.",
            f"snaptide group unquiet {group.definition_site} {group.name} {site}"
            " --only-group",
        )


def _parked(connection: Connection, site: str) -> Iterator[Finding]:
    count = connection.scalar(select(func.count()).select_from(error_transaction))
    if count:
        yield _warning(
            site,
            "error queue",
            f"{count} transactions could not be applied and wait for a decision.",
            f"snaptide errors list {site}",
        )


def _warning(site: str, subject: str, what: str, todo: str) -> Finding:
    return Finding(
        site=site, severity=Severity.WARNING, subject=subject, what=what, todo=todo
    )
