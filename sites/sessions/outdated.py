"""Repeating work in new sessions after a table was altered.

PL/pgSQL keeps the plans of a trigger as long as a session lives, and those of an
expression even when a column that it reads gets another type. The session then refuses
each row ("type of parameter 5 does not match that when preparing the plan"), while a
new session accepts it. So work that fails in this way is done once more in new
sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from tenacity import stop_after_attempt

from sites import retry
from sites.errors import SnaptideError
from sites.sessions.site import Site

Done = TypeVar("Done")

#: Errors for a type, or a result, that differs from the plan.
_STATES = ("42804", "0A000")


def may_be_why(error: BaseException | None) -> bool:
    """Whether outdated plans may have caused an error, or one of its causes."""
    while error is not None:
        said = error.orig if isinstance(error, DBAPIError) else error
        if getattr(said, "sqlstate", None) in _STATES:
            return True
        error = error.__cause__
    return False


def replaced(
    site: Site, work: Callable[[], Done], how_far: Callable[[], int] = lambda: 0
) -> Done:
    """Do some work; if plans may be outdated, repeat it in new sessions of a site.

    Parameters:
        work: takes its sessions from the site, and returns them.
        how_far: how much is done. If plans are outdated again after it has grown, the
            work is repeated again.

    Raises:
        the error of the work, if it fails in new sessions, too.
    """
    attempts = retry.on(
        DBAPIError,
        SnaptideError,
        when=may_be_why,
        stop=stop_after_attempt(2),
        progress=how_far,
        between=site.renew,
    )
    return attempts(work)
