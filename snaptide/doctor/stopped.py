"""Checks for work that has stopped and should run, for `snaptide status` and doctor.

Any finding ends both with 3, so that a script may run either.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy import Connection, func, not_, select

from deferred import runs
from deferred.catalog import destination, schedule
from deferred.error_catalog import WITHDRAWN, error_transaction
from deferred.queues import destination_state, queue
from deferred.queues.backlog import waiting_destinations
from deferred.queues.destination_state import State
from groups import Status
from groups.catalog import replication_group
from groups.relay import holds
from snapshots import catalog as snapshots
from snaptide.doctor.finding import Finding, warning


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about destinations, schedules, beat, groups and parked errors."""
    yield from _destinations(connection, site)
    yield from _schedules(connection, site)
    yield from _beat(connection, site)
    yield from _groups(connection, site)
    yield from _suspended(connection, site)
    yield from _quiet(connection, site)
    yield from _parked(connection, site)


def _destinations(connection: Connection, site: str) -> Iterator[Finding]:
    used = select(destination).where(queue.goes_to(destination.c.name))
    for row in connection.execute(used.order_by("name")).all():
        subject, closed = f"destination {row.name}", False
        for one in destination_state.states_of(connection, row.name):
            if one.state in _COMMANDS:
                closed = True
                command = _COMMANDS[one.state].format(site=site, name=row.name)
                yield warning(site, subject, f"Nothing is pushed: {one}", command)
        if row.last_error and not closed:
            yield warning(
                site,
                subject,
                f"The last push failed: {row.last_error}",
                f"snaptide push {site} {row.name}",
            )


#: What lets pushes to a destination go on, by its state. A join ends by itself.
_COMMANDS: dict[State, str] = {
    "disabled": "snaptide push {site} {name} --enable",
    "invalid": "snaptide destination validate {site} {name}",
}


def _schedules(connection: Connection, site: str) -> Iterator[Finding]:
    failed = select(schedule).where(schedule.c.last_error.is_not(None))
    for row in connection.execute(failed.order_by("kind", "subject")):
        yield warning(
            site,
            f"schedule {row.kind} {row.subject}",
            f"The last run failed: {row.last_error}",
            f"snaptide schedule list {site}",
        )
    for late in runs.overdue(connection):
        yield warning(
            site,
            f"schedule {late.kind} {late.subject}",
            f"Beat asked for it at {_at(late.since)}, but no worker has finished it."
            if late.asked
            else f"It has been due since {_at(late.since)}, but beat has not asked for "
            "it.",
            "Check that a worker is running and not too busy: snaptide worker --site "
            f"{site}"
            if late.asked
            else "Check that beat is running, and read its log: snaptide beat",
        )


def _beat(connection: Connection, site: str) -> Iterator[Finding]:
    """A finding if beat does not look at this site, and a schedule or push needs it."""
    looked_at = runs.last_look(connection)
    if looked_at is not None and _is_recent(connection, looked_at):
        return
    scheduled = connection.scalar(select(sa.exists().where(~schedule.c.disabled)))
    # Pushes after commits need beat, too. If it never ran here, people push by hand.
    if scheduled or (looked_at is not None and waiting_destinations(connection)):
        since = f"since {_at(looked_at)}" if looked_at else "yet"
        yield warning(
            site,
            "beat",
            f"It has not looked at this site {since}: schedules do not run, and "
            "commits are not pushed automatically.",
            "snaptide beat",
        )


def _is_recent(connection: Connection, looked_at: datetime) -> bool:
    late = sa.literal(looked_at, sa.DateTime(timezone=True)) < func.now() - runs.GRACE
    return not connection.scalar(select(late))


def _groups(connection: Connection, site: str) -> Iterator[Finding]:
    group = snapshots.refresh_group
    failed = select(group).where(group.c.last_error.is_not(None))
    for row in connection.execute(failed.order_by("name")):
        yield warning(
            site,
            f"refresh group {row.name}",
            f"Its last refresh had a problem: {row.last_error}",
            f"snaptide refresh {site} {row.name}",
        )


def _suspended(connection: Connection, site: str) -> Iterator[Finding]:
    at = replication_group.c
    wanted = select(replication_group).where(at.status != Status.NORMAL)
    for row in connection.execute(wanted.order_by("name")):
        who = f" by {row.status_by}" if row.status_by else ""
        yield warning(
            site,
            f"group {row.name}",
            f"It has been {row.status}{who} since {row.status_since:%Y-%m-%d %H:%M} "
            "UTC: users cannot change its tables.",
            f"snaptide group resume {row.definition_site} {row.name}",
        )


def _quiet(connection: Connection, site: str) -> Iterator[Finding]:
    known = {row.id: row for row in connection.execute(select(replication_group))}
    for one in holds.listed(connection):
        group = known.get(one.group_id)
        if group is None:
            continue
        yield warning(
            site,
            f"group {group.name}",
            f"{holds.message(one)} Changes that arrive for it wait in the error queue.",
            f"snaptide group unquiet {group.definition_site} {group.name} {site}"
            " --only-group",
        )


def _parked(connection: Connection, site: str) -> Iterator[Finding]:
    own = error_transaction.c.reason == WITHDRAWN
    for which, what in (
        (not_(own), "could not be applied"),
        (own, "of this site were withdrawn, because their rows left a snapshot,"),
    ):
        rows = select(func.count()).select_from(error_transaction).where(which)
        if count := connection.scalar(rows):
            yield warning(
                site,
                "error queue",
                f"{count} transactions {what} and wait for a decision.",
                f"snaptide errors list {site}",
            )


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
