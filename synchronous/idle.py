"""Pools that try a connection before use only if it was idle for a while.

Trying each one costs a round trip, of which a single-row transaction has six.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

#: Seconds of idling after which the server may have gone unnoticed.
LONG = 2.0

_KEY = "snaptide.idle_since"


def try_after_idling(engine: Engine) -> None:
    """Keep a pool from giving out connections that broke while they were idle."""
    event.listen(engine, "checkin", _note)
    event.listen(engine, "checkout", _try)


def _note(_driver: object, record: Any) -> None:
    record.info[_KEY] = time.monotonic()


def is_alive(driver: psycopg.Connection[Any], since: float) -> bool:
    """Whether a connection that has been idle since a moment still works.

    Parameters:
        since: by the monotonic clock, in seconds.
    """
    if driver.closed or time.monotonic() - since < LONG:
        return not driver.closed
    autocommit = driver.autocommit
    try:
        driver.autocommit = True
        driver.execute("")
        driver.autocommit = autocommit
    except psycopg.Error:
        return False
    return True


def _try(driver: psycopg.Connection[Any], record: Any, _proxy: object) -> None:
    if not is_alive(driver, record.info.get(_KEY, time.monotonic())):
        raise DisconnectionError
