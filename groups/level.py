"""Having one master know what another one had: pushes from master to master."""

from __future__ import annotations

from collections.abc import Sequence

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

import deferred
from deferred.errors import PushRunning
from deferred.pushing.push import destinations
from sites import Site

#: How long a push of somebody else is waited for, in seconds.
PATIENCE_SECONDS = 60


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
                    moved += _push(master, to)
        if not moved:
            return


def waiting_for_pushes() -> Retrying:
    """Try again while somebody else pushes, for a while."""
    return Retrying(
        retry=retry_if_exception_type(PushRunning),
        stop=stop_after_delay(PATIENCE_SECONDS),
        wait=wait_random(0.05, 0.2),
        reraise=True,
    )


def _push(master: Site, to: str) -> int:
    for attempt in waiting_for_pushes():
        with attempt:
            report = deferred.push(master, to)
            if report.another_pusher:
                raise PushRunning(
                    f"A push from {master.name} to {to} is running.", destination=to
                )
    return report.transactions
