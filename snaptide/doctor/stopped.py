"""Checks for work that has stopped and should run, for `snaptide status` and doctor.

Any finding ends both with 3, so that a script may run either.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from deferred import runs
from deferred.error_catalog import WITHDRAWN
from deferred.queues.backlog import Backlog
from deferred.queues.destination_state import State
from deferred.runs import GRACE
from deferred.schedules import EVERYTHING
from groups.relay import holds
from masters.contract_catalog import ContractState
from sites.words import counted, does
from snaptide.doctor.finding import Finding, warning
from snaptide.reading import Reading
from snaptide.units import duration


def check(found: Reading, site: str) -> Iterator[Finding]:
    """Findings about destinations, schedules, services, groups and parked errors."""
    yield from _destinations(found, site)
    yield from _schedules(found, site)
    yield from _beat(found, site)
    yield from _listening(found, site)
    yield from _groups(found, site)
    yield from _contracts(found, site)
    yield from _answers(found, site)
    yield from _suspended(found, site)
    yield from _quiet(found, site)
    yield from _parked(found, site)


def _destinations(found: Reading, site: str) -> Iterator[Finding]:
    for row in found.backlog:
        subject, closed = f"destination {row.destination}", False
        for one in row.states:
            if one.state in _COMMANDS:
                closed = True
                command = _COMMANDS[one.state].format(site=site, name=row.destination)
                yield warning(site, subject, f"Nothing is pushed: {one}", command)
        if row.last_error and not closed:
            yield warning(
                site,
                subject,
                f"The last push failed: {row.last_error}",
                f"snaptide push {site} {row.destination}",
            )


#: What lets pushes to a destination go on, by its state. A join ends by itself.
_COMMANDS: dict[State, str] = {
    "disabled": "snaptide push {site} {name} --enable",
    "invalid": "snaptide destination validate {site} {name}",
}


def _schedules(found: Reading, site: str) -> Iterator[Finding]:
    for row in found.schedules:
        if row.last_error is None:
            continue
        yield warning(
            site,
            f"schedule {row.kind} {row.subject}",
            f"The last run failed: {row.last_error}",
            f"snaptide schedule list {site}",
        )
    for late in found.overdue:
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


def _beat(found: Reading, site: str) -> Iterator[Finding]:
    """A finding if beat does not look at this site, and a schedule needs it."""
    looked_at = found.looked_at
    if not runs.is_away(looked_at, found.now):
        return
    if any(not one.disabled for one in found.schedules):
        since = f"since {_at(looked_at)}" if looked_at else "yet"
        yield warning(
            site,
            "beat",
            f"It has not looked at this site {since}: schedules do not run.",
            "snaptide beat",
        )


def _listening(found: Reading, site: str) -> Iterator[Finding]:
    """A finding if commits wait, and neither a worker nor a schedule pushes them.

    If beat never looked at this site, people push by hand.
    """
    if found.listeners or found.looked_at is None:
        return
    pushed = {
        one.subject
        for one in found.schedules
        if one.kind == "push" and not one.disabled
    }
    for one in found.backlog:
        if _waits(one, found.now) and not pushed & {one.destination, EVERYTHING}:
            yield warning(
                site,
                f"destination {one.destination}",
                "Commits wait for a push, and no worker listens for them.",
                f"snaptide worker --site {site}",
            )


def _waits(one: Backlog, now: datetime) -> bool:
    """Whether something has waited for a while for a destination that is open."""
    since = one.oldest
    late = since is not None and since < now - GRACE
    return late and all(at.state == "excused" for at in one.states)


def _groups(found: Reading, site: str) -> Iterator[Finding]:
    for row in found.refresh_groups:
        if row.last_error is None:
            continue
        yield warning(
            site,
            f"refresh group {row.name}",
            f"Its last refresh had a problem: {row.last_error}",
            f"snaptide refresh {site} {row.name}",
        )


def _contracts(found: Reading, site: str) -> Iterator[Finding]:
    """Findings about contracts that are not kept, and those that nobody looks at."""
    for row in found.contracts:
        subject = f"contract of {row.site_name}:{row.refresh_group}"
        name = f"{row.site_name} {row.refresh_group}"
        if row.state != ContractState.KEPT:
            yield warning(
                site,
                subject,
                f"It has been {row.state} since {_at(row.since)}: {row.reason}",
                f"snaptide refresh {name}",
            )
        if not row.registered:
            yield warning(
                site,
                subject,
                "None of its snapshots is registered here any more.",
                f"snaptide contract drop {site} {name}",
            )
        yield from _unseen(found, site, subject, row.looked_at)


def _answers(found: Reading, site: str) -> Iterator[Finding]:
    """Findings about answers that are late, and promises that nobody looks at."""
    for row in found.answers:
        subject = f"answers to {row.group}"
        if row.state == ContractState.LATE:
            yield warning(
                site,
                subject,
                f"They have been late since {_at(row.since)}: {row.master} has not "
                f"answered the oldest change for {duration(row.age)}; the limit is "
                f"{duration(row.within)}.",
                f"snaptide push {site} {row.master}",
            )
        yield from _unseen(found, site, subject, row.looked_at)


def _unseen(
    found: Reading, site: str, subject: str, looked_at: datetime
) -> Iterator[Finding]:
    if looked_at < found.now - UNSEEN:
        yield warning(
            site,
            subject,
            f"No worker has looked at it since {_at(looked_at)}.",
            "Check that beat is running, and a worker of the site: snaptide worker "
            f"--site {site}",
        )


#: Workers look at contracts once a minute.
UNSEEN = timedelta(minutes=5)


def _suspended(found: Reading, site: str) -> Iterator[Finding]:
    for row in found.suspended:
        who = f" by {row.status_by}" if row.status_by else ""
        yield warning(
            site,
            f"group {row.name}",
            f"It has been {row.status}{who} since {row.status_since:%Y-%m-%d %H:%M} "
            "UTC: users cannot change its tables.",
            f"snaptide group resume {row.definition_site} {row.name}",
        )


def _quiet(found: Reading, site: str) -> Iterator[Finding]:
    for row in found.quiet:
        yield warning(
            site,
            f"group {row.name}",
            f"{holds.message(row)} Changes that arrive for it wait in the error queue.",
            f"snaptide group unquiet {row.definition_site} {row.name} {site}"
            " --only-group",
        )


def _parked(found: Reading, site: str) -> Iterator[Finding]:
    for withdrawn in (False, True):
        count = sum(
            one.transactions
            for one in found.parked
            if (one.reason == WITHDRAWN) == withdrawn
        )
        if count:
            yield warning(
                site,
                "error queue",
                _why_parked(count, withdrawn=withdrawn),
                f"snaptide errors list {site}",
            )


def _why_parked(count: int, *, withdrawn: bool) -> str:
    said, wait = counted(count, "transaction"), does(count, "wait")
    if not withdrawn:
        return f"{said} could not be applied and {wait} for a decision."
    whose = "its" if count == 1 else "their"
    return (
        f"{said} of this site {does(count, 'were')} withdrawn, because {whose} rows "
        f"left a snapshot, and {wait} for a decision."
    )


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
