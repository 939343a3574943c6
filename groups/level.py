"""Having one master know what another one had: pushes from master to master."""

from __future__ import annotations

from collections.abc import Sequence

import deferred
from deferred.batches.pusher import waiting_for_pushes
from deferred.errors import PushRunning
from deferred.pushing.push import destinations
from sites import Site


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
        moved = 0
        for name in masters:
            master = site.peer(name)
            for to in destinations(master):
                if to in masters:
                    moved += push(master, to)
        if not moved:
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
