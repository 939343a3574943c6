"""Pushes from master to master, beside other pushers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import deferred
from deferred.batches.pusher import waiting_for_pushes
from deferred.errors import PushRunning
from deferred.options import PushArguments
from deferred.pushing.push import destinations
from sites import Site

#: No limits that this process has for its pushes: what waits has to come, and no more.
_ALL = PushArguments(
    stop_on_error=False, transaction_count=0, execution_seconds=0, delay_seconds=0
)

#: How long another pusher is left alone before it is asked again, in seconds.
PAUSE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The result of one round of pushes."""

    transactions: int
    #: another pusher was at work already, and may be still
    others_at_work: bool


def routes_between(site: Site, masters: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of masters between which something is pushed: from and to.

    Parameters:
        site: any that knows the masters.
    """
    return [
        (master, to)
        for master in masters
        for to in destinations(site.peer(master))
        if to in masters
    ]


def push_round(home: Site, routes: Iterable[tuple[str, str]]) -> Pushed:
    """Push each of these routes once; if others push already, wait for a moment.

    Parameters:
        routes: from which master to which.

    Raises:
        SiteUnreachable, PushInterrupted, and the other errors of `deferred.push`.
    """
    reports = [deferred.push(home.peer(master), to, **_ALL) for master, to in routes]
    others = any(report.another_pusher for report in reports)
    if others:
        time.sleep(PAUSE)
    return Pushed(
        transactions=sum(report.transactions for report in reports),
        others_at_work=others,
    )


def push_everywhere(site: Site, masters: Sequence[str]) -> None:
    """Push from each master to each, as often as the longest route can have steps.

    All transactions that were committed before have then come everywhere, or are
    parked there. A round that moves nothing is not the last: another pusher may just
    have brought what has yet to be sent on.

    Parameters:
        site: any that knows the masters.

    Raises:
        PushRunning: another push does not end.
        As `deferred.push` does.
    """
    for _ in masters[1:]:
        for master, to in routes_between(site, masters):
            push(site.peer(master), to)


def push(master: Site, to: str) -> None:
    """Push all that waits, as soon as no other pusher is at work.

    Raises:
        PushRunning: another push does not end.
        As `deferred.push` does.
    """
    for attempt in waiting_for_pushes():
        with attempt:
            report = deferred.push(master, to, **_ALL)
            if report.another_pusher:
                raise PushRunning(
                    f"A push from {master.name} to {to} is running.", destination=to
                )
