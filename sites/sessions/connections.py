"""What our pools of connections do: give out none that broke, and end users' settings.

A server that ends a session says so, and a reset tells the kernel: either can be seen
without a question to the server. Only a line that vanished silently looks as before; so
a connection that was idle for a while is tried, which costs a round trip.

A trigger or procedure of a user's may SET something for the rest of the session, not
only for the transaction in which Snaptide's statement fires it. Later transactions of
that session, and those of another task that gets it from the pool, would print values
in another form, or write rows without firing triggers or checking foreign keys. So a
commit ends all settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector
from typing import Any, cast

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

#: Seconds of idling after which a firewall may have dropped the line without a word.
LONG = 10.0

_KEY = "snaptide.idle_since"

#: One message to the server. RESET ALL returns to what the session began with, but
#: leaves the role alone.
COMMIT = "COMMIT; RESET ROLE; RESET ALL"


def refuse_broken(engine: Engine) -> None:
    """Keep a pool from giving out connections that broke while they were idle."""
    event.listen(engine, "checkin", _note)
    event.listen(engine, "checkout", _refuse)


def _note(_driver: object, record: Any) -> None:
    record.info[_KEY] = time.monotonic()


def is_alive(driver: psycopg.Connection[Any], since: float) -> bool:
    """Whether a connection that has been idle since a moment still works.

    Parameters:
        since: by the monotonic clock, in seconds.
    """
    if driver.closed or _has_heard(driver):
        return False
    return time.monotonic() - since < LONG or _answers(driver)


def _has_heard(driver: psycopg.Connection[Any]) -> bool:
    """Whether something has come that nobody asked for: the end of the session.

    Or a setting that was changed for the whole server, which is rare: a new session
    costs little then.
    """
    with DefaultSelector() as selector:
        selector.register(driver, EVENT_READ)
        return bool(selector.select(0))


def _answers(driver: psycopg.Connection[Any]) -> bool:
    autocommit = driver.autocommit
    try:
        driver.autocommit = True
        driver.execute("")
        driver.autocommit = autocommit
    except psycopg.Error:
        return False
    return True


def _refuse(driver: psycopg.Connection[Any], record: Any, _proxy: object) -> None:
    if not is_alive(driver, record.info.get(_KEY, time.monotonic())):
        raise DisconnectionError("The session broke while it was idle.")


class RestoringConnection(psycopg.Connection[Any]):
    """A connection whose sessions have their first settings after each commit.

    A rollback takes settings back by itself.
    """

    def commit(self) -> None:
        """Commit, and take back what the transaction has set for the session."""
        if (
            self.info.transaction_status is TransactionStatus.INTRANS
            and self.info.pipeline_status is PipelineStatus.OFF
        ):
            self.execute(COMMIT)
        else:
            super().commit()


def reset_at_commit(engine: Engine) -> None:
    """Let a pool open connections whose commits end what users' triggers have set."""
    event.listen(engine, "do_connect", _connect)


def _connect(
    _dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]
) -> RestoringConnection:
    connect = cast("Callable[..., RestoringConnection]", RestoringConnection.connect)
    return connect(*arguments, **named)
