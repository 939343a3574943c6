"""Sessions whose plans are of before a table was altered.

PL/pgSQL keeps the plans of a trigger for as long as a session lives, and those of an
expression even when a column that it reads is given another type: the session then
refuses each row ("type of parameter 5 does not match that when preparing the plan"),
and a new one takes it. So what fails so is done once more in new sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from sites.errors import SnaptideError
from sites.site import Site

Done = TypeVar("Done")

#: A type that is another than when it was planned, and a result that is.
_STATES = ("42804", "0A000")


def may_be_why(error: BaseException | None) -> bool:
    """Whether outdated plans may be the cause of a failure, or of what it came from."""
    while error is not None:
        said = error.orig if isinstance(error, DBAPIError) else error
        if getattr(said, "sqlstate", None) in _STATES:
            return True
        error = error.__cause__
    return False


def replaced(
    site: Site, work: Callable[[], Done], how_far: Callable[[], int] = lambda: 0
) -> Done:
    """Do some work, once more in new sessions of a site where plans may be outdated.

    Parameters:
        work: takes its sessions from the site, and gives them back.
        how_far: how much is done. Where it has grown since the sessions were new, and
            plans are outdated again, there are new ones again.

    Raises:
        whatever the work raises, where it fails in new sessions too.
    """
    before = None
    while True:
        try:
            return work()
        except (DBAPIError, SnaptideError) as error:
            if not may_be_why(error) or how_far() == before:
                raise
        before = how_far()
        site.renew()
