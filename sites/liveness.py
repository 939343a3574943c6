"""Pools that give out no connection that broke while it was idle.

A server that ends a session says so, and a reset tells the kernel: either can be seen
without a question to the server. Only a line that vanished silently looks as before; so
a connection that was idle for a while is tried, which costs a round trip.
"""

from __future__ import annotations

import time
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

#: Seconds of idling after which a firewall may have dropped the line without a word.
LONG = 10.0

_KEY = "snaptide.idle_since"


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
