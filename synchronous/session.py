"""Sessions at the site whose transactions are coordinated, and their settings.

Sessions of our own pool are set once, until a statement sets them otherwise: setting
each transaction costs a round trip in each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from sqlalchemy import Connection, Engine, event, func, select

from sites.sessions.exchange import driver_of
from sites.sessions.settings import SETTINGS
from synchronous.prepared import forget

#: The settings, which hold until a transaction ends, or for the whole session.
_SET = """
SELECT set_config('lock_timeout',
   CASE WHEN current_setting('lock_timeout') IN ('0', %(ours)s) THEN %(lock_timeout)s
   ELSE current_setting('lock_timeout') END, %(local)s),
 set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, %(local)s),
 set_config('snaptide.coordinated', 'site', %(local)s),
 set_config('synchronous_commit', 'on', %(local)s),
 set_config('search_path',
   COALESCE(%(search_path)s, current_setting('search_path')), %(local)s)
"""

#: Statements after which a session may be set otherwise, in later transactions too.
_SETS = re.compile(
    r"\s*(?:reset|discard|set\s+(?!local\b|transaction\b|constraints\b))", re.IGNORECASE
)

_UNPREPARES = re.compile(r"\s*(?:discard|deallocate)\b", re.IGNORECASE)

#: Where a connection remembers for which limits it was set.
_LIMITS = "snaptide.limits"
#: And its lock_timeout, if we have set it: it says nothing about the user's.
_LOCK_TIMEOUT = "snaptide.lock_timeout"
#: And the role's search_path, if its pool is ours.
_SEARCH_PATH = "snaptide.search_path"

#: The settings that the text of a value depends on.
_PRINTING = (
    "datestyle",
    "intervalstyle",
    "timezone",
    "extra_float_digits",
    "bytea_output",
    "lc_monetary",
    "xmloption",
)


class CountingConnection(psycopg.Connection[TupleRow]):
    """A connection to the site that counts all its exchanges with the server.

    So the coordinator notices statements that are run past it, and need not ask for
    them before each commit.
    """

    used = 0

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """Exchange something with the server; cursors of every kind call this."""
        self.used += 1
        return super().wait(*arguments, **options)

    def commit(self) -> None:
        """Commit, unless the coordinator has."""
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            super().commit()

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            super().rollback()


def connect(
    _dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]
) -> CountingConnection:
    """Open a connection for a pool."""
    return cast("Callable[..., CountingConnection]", CountingConnection.connect)(
        *arguments, **named
    )


def used(driver: psycopg.Connection[Any]) -> int | None:
    """How often a connection was used; None if it does not count."""
    return driver.used if isinstance(driver, CountingConnection) else None


def set_once(engine: Engine, limits: Mapping[str, float]) -> None:
    """Set each session of a pool when it begins, for transactions with these limits."""

    def connect(driver: psycopg.Connection[Any], record: Any) -> None:
        theirs = _current(driver, "lock_timeout")
        driver.execute(_SET, _parameters(limits, {}, local=False))
        if theirs == "0":
            record.info[_LOCK_TIMEOUT] = _current(driver, "lock_timeout")
        record.info[_SEARCH_PATH] = _current(driver, "search_path")
        record.info[_LIMITS] = dict(limits)
        driver.commit()

    event.listen(engine, "connect", connect)


def begin(connection: Connection, limits: Mapping[str, float]) -> None:
    """Apply the settings to a transaction that begins, unless its session has them.

    Parameters:
        limits: lock_timeout and idle_timeout, in seconds.
    """
    info = connection.info
    if info.get(_LIMITS) != limits:
        driver = driver_of(connection)
        parameters = _parameters(limits, info, local=True)
        with driver.pipeline():
            driver.execute(_SET, parameters, prepare=True)


def watch(connection: Connection, statement: str) -> None:
    """Forget settings and prepared statements that a statement may undo."""
    if _SETS.match(statement):
        connection.info.pop(_LIMITS, None)
    if unprepares(statement):
        forget(driver_of(connection))


def unprepares(statement: str) -> bool:
    """Whether a session may have nothing prepared any more after a statement."""
    return _UNPREPARES.match(statement) is not None


@contextmanager
def printing_as_ours(connection: Connection) -> Iterator[None]:
    """Have a session of an application's print values as its master reads them.

    The settings hold in its transaction while the block runs. If a statement fails, so
    does the transaction, and takes the settings back.
    """
    current = connection.execute(select(*(func.current_setting(n) for n in _PRINTING)))
    theirs = dict(zip(_PRINTING, current.one(), strict=True))
    ours = {name: SETTINGS[name] for name in _PRINTING}
    _set(connection, {n: v for n, v in ours.items() if not _same(v, theirs[n])})
    yield
    _set(connection, {n: v for n, v in theirs.items() if not _same(v, ours[n])})


def _same(one: str, other: str) -> bool:
    return one.replace(" ", "").lower() == other.replace(" ", "").lower()


def _set(connection: Connection, settings: dict[str, str]) -> None:
    if settings:
        values = (func.set_config(n, v, True) for n, v in settings.items())
        connection.execute(select(*values))


def _current(driver: psycopg.Connection[Any], setting: str) -> str:
    row = driver.execute("SELECT current_setting(%s)", [setting]).fetchone()
    return str(row[0]) if row else "0"


def _parameters(
    limits: Mapping[str, float], info: Mapping[Any, Any], *, local: bool
) -> dict[str, object]:
    return {
        "ours": info.get(_LOCK_TIMEOUT, "0"),
        "lock_timeout": f"{int(limits['lock_timeout'] * 1000)}ms",
        "idle_timeout": f"{int(limits['idle_timeout'] * 1000)}ms",
        "search_path": info.get(_SEARCH_PATH),
        "local": local,
    }
