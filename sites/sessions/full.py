"""Waits for a connection that a server has no room for.

PostgreSQL itself keeps the limits: `max_connections` of the server, and the CONNECTION
LIMIT of a role or a database. It counts sessions, so that a limit holds for all workers
on all machines, and a killed worker takes no place for longer than its sessions last.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sites.errors import NoConnectionFree

if TYPE_CHECKING:
    from tenacity import Retrying

log = logging.getLogger(__name__)

Session = TypeVar("Session")
Done = TypeVar("Done")

#: Seconds that a session is waited for. Each wait is shorter by a random part: of two
#: that wait for each other's sessions after all, one gives way first.
PATIENCE = 20.0

#: Seconds of the longest pause between two attempts: each costs the server a process.
LONGEST = 2.0

#: How libpq repeats the server's refusals; it does not tell their SQLSTATE, 53300. A
#: server that says them in another language is taken for one that is away.
_REFUSALS = (
    "too many connections for ",
    "too many clients already",
    "connection slots are reserved for ",
)


def refusal(error: object) -> str | None:
    """The line of an error in which a server refuses a session for want of room.

    None if the error has another cause.
    """
    for line in str(error).splitlines():
        if any(text in line for text in _REFUSALS):
            return line.strip()
    return None


def has_no_room(error: object) -> bool:
    """Whether a session was refused because server, role or database have enough."""
    return refusal(error) is not None


def wait_for(connect: Callable[[], Session], address: str = "a database") -> Session:
    """Open a session; if there is no room for it, wait for another one to end.

    Parameters:
        connect: opens the session, or fails.
        address: of the database, for the log.

    Raises:
        the error of `connect`; of the last attempt, if there never was room.
    """
    try:
        return connect()
    except Exception as error:
        return wait_on(error, connect, address)


def wait_on(
    refused: Exception, connect: Callable[[], Session], address: str
) -> Session:
    """Go on as `wait_for` does, after a first attempt was refused.

    Raises:
        the error of the last attempt.
    """
    if not has_no_room(refused):
        raise refused
    began = time.monotonic()
    opened: Session = _patiently(Exception, has_no_room)(connect)
    waited = time.monotonic() - began
    log.info("Waited %.1f s for a free connection to %s.", waited, address)
    return opened


def anew(work: Callable[[], Done]) -> Done:
    """Do work that takes several sessions; if one is not free, begin it anew.

    Between two attempts it has none, and it gives up after a while.

    Raises:
        the error of the work; NoConnectionFree, if it never came to all sessions.
    """
    done: Done = _patiently(NoConnectionFree)(work)
    return done


def _patiently(
    kind: type[Exception], when: Callable[[Any], bool] = lambda _error: True
) -> Retrying:
    """Attempts for some seconds, at random times."""
    # Imported late: most commands find a connection at once.
    from tenacity import stop_after_delay, wait_random_exponential

    from sites import retry

    return retry.on(
        kind,
        when=when,
        stop=stop_after_delay(PATIENCE * random.uniform(0.5, 1.0)),
        wait=wait_random_exponential(multiplier=0.2, max=LONGEST, min=0.05),
    )
