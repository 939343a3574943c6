"""Finds out whether a master took a right away, after rows could not be read there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from deferred import sqlstate
from sites.errors import NotGranted, SnaptideError
from sites.names import QualifiedName
from sites.sessions import granted
from sites.sessions.site import Site
from sites.transfer.arrow import ArrowTransportFailed
from snapshots.errors import LensFails
from snapshots.spark.errors import SparkError


@contextmanager
def named(master: Site, tables: Sequence[QualifiedName], what: str) -> Iterator[None]:
    """Say so if the block fails because the site may not read a table any more.

    Parameters:
        tables: those that the block reads.
        what: refresh or check, for the message.

    Raises:
        NotGranted: the grant was revoked while the block ran.
    """
    try:
        yield
    except _WITH_ITS_MESSAGE as error:
        if _may_be_a_right(error):
            _refuse(master, tables, what, error)
        raise


#: Errors with a refusal of the database. Those of Spark and of lenses have no state.
_WITH_ITS_MESSAGE = (
    DBAPIError,
    psycopg.Error,
    ArrowTransportFailed,
    SparkError,
    LensFails,
)


def _may_be_a_right(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        return sqlstate.of(error) == sqlstate.NO_RIGHT
    return getattr(error, "sqlstate", sqlstate.NO_RIGHT) == sqlstate.NO_RIGHT


def _refuse(
    master: Site, tables: Sequence[QualifiedName], what: str, because: Exception
) -> None:
    found: list[QualifiedName] = []
    with suppress(SnaptideError, SQLAlchemyError), master.session() as connection:
        found = granted.unreadable(connection, tables)
    if found:
        names = ", ".join(map(str, found))
        raise NotGranted(
            f"The grant was revoked during the {what}: {master.name} does not let this "
            f"site read {names} any more.",
            tables=[*map(str, found)],
        ) from because
