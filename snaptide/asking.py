"""Reads from a site on an operator's behalf, and reports its errors as ours.

So a command that looks at many sites can report the error of one, and still show
the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError

from sites import Site
from sites.errors import (
    OtherSchema,
    SiteNotInitialised,
    SiteUnreachable,
    SnaptideError,
)
from sites.sessions import identity
from snaptide.errors import (
    DatabaseError,
    NoBroker,
    NotPermitted,
    NotThere,
    OnlyReads,
    Unexpected,
)
from snaptide_imports import lazily

if TYPE_CHECKING:
    from kombu import exceptions as kombu
else:
    kombu = lazily("kombu.exceptions")

_MISSING = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)


@contextmanager
def asking(site: Site) -> Iterator[Connection]:
    """A connection to a site for a block that only reads.

    Raises:
        SiteUnreachable: the site does not answer, or stopped answering.
        NotPermitted: our user lacks a right there.
        DatabaseError: the database refused something else.
    """
    try:
        with site.session() as connection:
            yield connection
    except (DBAPIError, psycopg.Error) as error:
        raise as_told(error) from None


def as_told(error: Exception) -> SnaptideError:
    """Turn an error of a library into one of ours; ours stay as they are."""
    if isinstance(error, SnaptideError):
        return error
    if isinstance(error, kombu.OperationalError):
        return NoBroker("The broker does not answer.")
    if isinstance(error, OperationalError) and error.connection_invalidated:
        return SiteUnreachable(f"The connection was lost: {first_line(error.orig)}")
    if isinstance(error, psycopg.OperationalError) and _is_lost(error):
        return SiteUnreachable(f"The connection was lost: {first_line(error)}")
    if isinstance(error, DBAPIError):
        return _refused(error.orig)
    if isinstance(error, psycopg.Error):
        return _refused(error)
    return Unexpected(f"{type(error).__name__}: {first_line(error)}")


def said_of(site: Site, error: Exception) -> SnaptideError:
    """As `as_told`, but says if the site has no schema, or that of another version."""
    told = as_told(error)
    if isinstance(told, NotThere):
        try:
            with site.session() as connection:
                identity.read(connection)
        except (SiteNotInitialised, OtherSchema) as why:
            return why
        except (SnaptideError, DBAPIError, psycopg.Error):
            pass
    return told


def first_line(error: object) -> str:
    """The first line of an error's message; its class if the message is empty."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _refused(error: BaseException | None) -> SnaptideError:
    kind: type[SnaptideError] = DatabaseError
    if isinstance(error, errors.InsufficientPrivilege):
        kind = NotPermitted
    elif isinstance(error, _MISSING):
        kind = NotThere
    elif isinstance(error, errors.ReadOnlySqlTransaction):
        kind = OnlyReads
    return kind(f"The database says: {first_line(error)}")


def _is_lost(error: psycopg.OperationalError) -> bool:
    """Whether the server closed the connection, without a reason or by shutting down.

    SQLSTATE 08 is a connection error, 57P an intervention of an operator.
    """
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
