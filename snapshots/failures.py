"""What is said of a site at which something failed, while others go on."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from sqlalchemy.exc import DBAPIError

from sites.errors import SiteUnreachable, SnaptideError, UnknownSite

#: Errors that concern one site, while others go on; any other error ends the call.
OF_A_SITE = (SnaptideError, DBAPIError, psycopg.Error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why nothing, or not all, was done at a site."""

    #: refused; away, if the site or its master was not reached
    state: str
    code: str | None
    why: str
    hint: str = ""


def failure(error: SnaptideError | DBAPIError | psycopg.Error) -> Failure:
    """What is said of an error that concerns one site."""
    if isinstance(error, SnaptideError):
        away = isinstance(error, SiteUnreachable | UnknownSite)
        return Failure(
            state="away" if away else "refused",
            code=error.code,
            why=error.message,
            hint=error.hint,
        )
    cause = error.orig if isinstance(error, DBAPIError) else error
    why, _, _ = str(cause).partition("\n")
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return Failure(
        state="away" if lost else "refused",
        code=getattr(cause, "sqlstate", None),
        why=why,
    )
