"""Locks on users' tables: taken within a moment, or tried again later. And on work.

A session that waits for a table lock makes all later sessions wait, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError, OperationalError
from tenacity import Retrying, stop_after_attempt, wait_random

from sites import retry
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.sessions.prepared import Prepared
from sites.sessions.site import Site, autocommit

#: How long other sessions may have to wait behind us while we wait for a lock.
MOMENT = "500ms"

ATTEMPTS = 20

#: Table locks of sessions that neither change rows nor lock them.
_OF_READERS = ("AccessShareLock", "ShareUpdateExclusiveLock")

_LOCKS = sa.table("pg_locks", *map(sa.column, ("database", "relation", "mode", "pid")))
_DATABASE = sa.table("pg_database", sa.column("oid"), sa.column("datname"))


def others_write(connection: Connection, tables: Collection[int]) -> bool:
    """Whether another open transaction may have changed or locked rows of tables."""
    here = select(_DATABASE.c.oid).where(_DATABASE.c.datname == func.current_database())
    held = select(_LOCKS.c.mode).where(
        _LOCKS.c.relation.in_(tables),
        _LOCKS.c.database == here.scalar_subquery(),
        _LOCKS.c.mode.not_in(_OF_READERS),
        # A prepared transaction has no process: its pid is NULL.
        _LOCKS.c.pid.is_distinct_from(func.pg_backend_pid()),
    )
    return bool(connection.scalar(select(held.exists())))


@contextmanager
def alone(
    site: Site, work: str, of: str, busy: Callable[[], Exception]
) -> Iterator[Connection]:
    """Keep other sessions from the same work at a site while the block runs.

    This holds as long as the yielded session lives, which an administrator may end.

    Parameters:
        work, of: the kind of work, and what it is done to.
        busy: makes the error that is raised if another session is doing it.
    """
    key = lock_on(work, of)
    with site.session() as connection, autocommit(connection):
        if not connection.scalar(select(func.pg_try_advisory_lock(*key))):
            raise busy()
        try:
            yield connection
        finally:
            _unlock(connection, key)


def lock_on(work: Any, of: Any = "") -> Sequence[sa.ColumnElement[int]]:
    """The advisory lock of some work; `work` and `of` are as `alone` takes them."""
    return func.hashtext(work), func.hashtext(of)


_ITS = (sa.bindparam(f"its_{name}", type_=sa.String) for name in ("work", "of"))
_ON_ITS = lock_on(*_ITS)
_TURN = Prepared(select(func.pg_advisory_xact_lock(*_ON_ITS)))
_SHARED_TURN = Prepared(select(func.pg_advisory_xact_lock_shared(*_ON_ITS)))


def wait_turn(
    connection: Connection, work: str, of: str = "", *, shared: bool = False
) -> None:
    """Wait for transactions that do the same, and keep others out until the commit.

    Costs no round trip: it is sent with the next statement.

    Parameters:
        work, of: as `alone` takes them.
        shared: others may have the turn shared at the same time.
    """
    turn = _SHARED_TURN if shared else _TURN
    turn.hold(connection, its_work=work, its_of=of)


@contextmanager
def session_lock(
    connection: Connection,
    key: Sequence[sa.ColumnElement[int]],
    *,
    shared: bool = False,
) -> Iterator[None]:
    """Hold an advisory lock while the block runs, in which transactions may end.

    Parameters:
        connection: outside of a transaction, before and after the block.
        shared: others may hold it shared at the same time.
    """
    lock = func.pg_advisory_lock_shared if shared else func.pg_advisory_lock
    with autocommit(connection):
        connection.execute(select(lock(*key)))
    try:
        yield
    finally:
        with _may_have_ended():
            if not connection.invalidated:
                connection.rollback()  # what an error has left open
                with autocommit(connection):
                    _unlock(connection, key, shared=shared)


def _unlock(
    connection: Connection,
    key: Sequence[sa.ColumnElement[int]],
    *,
    shared: bool = False,
) -> None:
    """Let go of a lock, unless its session was ended, and the lock with it."""
    unlock = func.pg_advisory_unlock_shared if shared else func.pg_advisory_unlock
    with _may_have_ended():
        if not connection.invalidated:
            connection.execute(select(unlock(*key)))


@contextmanager
def _may_have_ended() -> Iterator[None]:
    """Let an error of the caller be told, not that its session was ended."""
    try:
        yield
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise


def briefly(connection: Connection, moment: str = MOMENT) -> None:
    """Let this transaction wait for each lock no longer than a moment."""
    connection.execute(select(func.set_config("lock_timeout", moment, True)))


def against_writers(connection: Connection, table: QualifiedName) -> None:
    """Wait for sessions that write to a table, and keep others out until the commit."""
    raw(connection).execute(
        sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(identifier(table))
    )


def against_ddl(connection: Connection, *tables: QualifiedName) -> None:
    """Keep DDL off tables until the commit; users may still read and write rows.

    Takes no database snapshot: if this is called first, the transaction takes its
    snapshot after the lock. To an earlier snapshot, a table looks empty that was
    truncated since, or rewritten as by a change of a type.

    Raises:
        psycopg.errors.UndefinedTable: one of them is gone.
        psycopg.errors.InvalidSchemaName: the schema of one is gone.
    """
    if tables:
        names = sql.SQL(", ").join(map(identifier, dict.fromkeys(tables)))
        raw(connection).execute(
            sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(names)
        )


def patiently() -> Retrying:
    """Try again if another session kept a table locked."""
    return retry.on(
        LockNotAvailable,
        OperationalError,
        when=_locked,
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random(0.1, 0.5),
    )


def _locked(error: LockNotAvailable | OperationalError) -> bool:
    cause = error.orig if isinstance(error, OperationalError) else error
    return isinstance(cause, LockNotAvailable)
