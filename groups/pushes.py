"""Pushing from master to master, beside those who do it anyway."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import deferred
from deferred.batches.pusher import waiting_for_pushes
from deferred.errors import PushRunning
from deferred.pushing.push import destinations
from sites import Site

#: How long another pusher is left alone before it is asked again, in seconds.
PAUSE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What one round of pushes did."""

    transactions: int
    #: somebody else was pushing already, and may be so still
    others_at_work: bool


def ways_between(site: Site, masters: Sequence[str]) -> list[tuple[str, str]]:
    """From which master to which of the others something is pushed.

    Parameters:
        site: any that knows the masters.
    """
    return [
        (master, to)
        for master in masters
        for to in destinations(site.peer(master))
        if to in masters
    ]


def push_round(home: Site, ways: Iterable[tuple[str, str]]) -> Pushed:
    """Push each of these ways once; give others who push it already a moment.

    Parameters:
        ways: from which master to which.

    Raises:
        SiteUnreachable, PushInterrupted: and what `deferred.push` raises.
    """
    reports = [deferred.push(home.peer(master), to) for master, to in ways]
    others = any(report.another_pusher for report in reports)
    if others:
        time.sleep(PAUSE)
    return Pushed(
        transactions=sum(report.transactions for report in reports),
        others_at_work=others,
    )


def push_everywhere(site: Site, masters: Sequence[str]) -> None:
    """Push from each master to each, as often as the longest way has steps.

    What was committed anywhere before has come everywhere then, or is parked there.

    Parameters:
        site: any that knows the masters.

    Raises:
        PushRunning: another push does not end.
        As `deferred.push` does.
    """
    for _ in masters[1:]:
        ways = ways_between(site, masters)
        if not sum(push(site.peer(master), to) for master, to in ways):
            return


def push(master: Site, to: str) -> int:
    """Push, once others do not; says how many transactions.

    Raises:
        PushRunning: another push does not end.
        As `deferred.push` does.
    """
    for attempt in waiting_for_pushes():
        with attempt:
            report = deferred.push(master, to)
            if report.another_pusher:
                raise PushRunning(
                    f"A push from {master.name} to {to} is running.", destination=to
                )
    return report.transactions
