"""Where sites breach the limits that an operator sets, for cron and probes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sites.words import counted
from snaptide.status import SiteStatus
from snaptide.units import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is still well; None is no limit."""

    #: how long a change may wait for its destination, and how old a group may be
    lag: timedelta | None
    #: transactions that may wait for one destination
    queue: int | None
    #: transactions in the error queue
    parked: int | None
    #: how long a run may be overdue
    overdue: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One limit that a site breaches, or why the site cannot be judged."""

    site: str
    #: away, not ready, lag, queue, parked or overdue
    kind: str
    #: the destination, refresh group or schedule
    subject: str
    what: str


def breaches(states: Sequence[SiteStatus], limits: Limits) -> list[Breach]:
    """The breaches of all sites, in their order."""
    return [one for status in states for one in _of(status, limits)]


def _of(status: SiteStatus, limits: Limits) -> Iterator[Breach]:
    if status.error is not None:
        kind = "not ready" if status.reachable else "away"
        yield Breach(site=status.site, kind=kind, subject="", what=status.error)
        return
    yield from _queues(status, limits)
    yield from _groups(status, limits)
    if limits.parked is not None and status.parked > limits.parked:
        what = counted(status.parked, "transaction", "are") + " parked."
        yield Breach(site=status.site, kind="parked", subject="", what=what)
    for one in status.schedules:
        if not one.disabled and _over(one.overdue, limits.overdue):
            what = f"It is overdue by {duration(one.overdue)}."
            subject = f"{one.kind} {one.subject}"
            yield Breach(site=status.site, kind="overdue", subject=subject, what=what)


def _queues(status: SiteStatus, limits: Limits) -> Iterator[Breach]:
    for one in status.backlog:
        waited = status.since(one.oldest)
        if _over(waited, limits.lag):
            what = f"A change has waited for {duration(waited)}."
            yield Breach(
                site=status.site, kind="lag", subject=one.destination, what=what
            )
        if limits.queue is not None and one.transactions > limits.queue:
            what = counted(one.transactions, "transaction", "wait") + "."
            yield Breach(
                site=status.site, kind="queue", subject=one.destination, what=what
            )


def _groups(status: SiteStatus, limits: Limits) -> Iterator[Breach]:
    for one in status.groups:
        if limits.lag is None or not (one.age is None or _over(one.age, limits.lag)):
            continue
        ago = "It has never been refreshed."
        if one.age is not None:
            ago = f"It shows its master as it was {duration(one.age)} ago."
        yield Breach(site=status.site, kind="lag", subject=one.name, what=ago)


def _over(seconds: float | None, limit: timedelta | None) -> bool:
    return seconds is not None and limit is not None and seconds > limit.total_seconds()
