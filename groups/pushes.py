"""Pushing from master to master, beside those who do it anyway."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import deferred
from sites import Site

#: How long another pusher is left alone before it is asked again, in seconds.
PAUSE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What one round of pushes did."""

    transactions: int
    #: somebody else was pushing already, and may be so still
    others_at_work: bool


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
