"""Locks on tables that users write to: taken in a moment, or tried again later.

Whoever waits for the lock of a table makes all who come after him wait too.
"""

from __future__ import annotations

from psycopg import sql
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import OperationalError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from sites.names import QualifiedName, identifier
from sites.transport import raw

#: How long users may have to wait behind us while we wait for one of them.
MOMENT = "500ms"

ATTEMPTS = 20


def briefly(connection: Connection) -> None:
    """Have this transaction wait for no lock longer than a moment."""
    connection.execute(select(func.set_config("lock_timeout", MOMENT, True)))


def against_writers(connection: Connection, table: QualifiedName) -> None:
    """Wait for those who write to a table, and keep others out until the commit."""
    raw(connection).execute(
        sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(identifier(table))
    )


def patiently() -> Retrying:
    """Try again when a table was locked by somebody all the while."""
    return Retrying(
        retry=retry_if_exception(_locked),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random(0.1, 0.5),
        reraise=True,
    )


def _locked(error: BaseException) -> bool:
    cause = error.orig if isinstance(error, OperationalError) else error
    return isinstance(cause, LockNotAvailable)
