"""Coordinated transactions for applications: by a block, or for an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine.interfaces import ExecutionContext

from sites import Site, configured
from sites.sessions import identity
from sites.sessions.exchange import driver_of
from synchronous import master_connection, session
from synchronous.commit import commit
from synchronous.errors import NotCoordinated, NoTransaction
from synchronous.site_cache import SiteCache
from synchronous.transaction import Transaction

#: How many seconds a master may take to answer.
TIMEOUT = 10.0
#: How many seconds to wait for a locked row, unless the session says otherwise.
LOCK_TIMEOUT = 5.0
#: How many seconds a transaction may be idle, at the site and its masters.
IDLE_TIMEOUT = 60.0

#: PostgreSQL counts timeouts in milliseconds, in 31 bits.
SHORTEST, LONGEST = 0.001, 2_147_483

LIMITS = {
    "timeout": TIMEOUT,
    "lock_timeout": LOCK_TIMEOUT,
    "idle_timeout": IDLE_TIMEOUT,
}

#: By connection, not on it: if one is lost, its masters have to roll back too.
_open: MutableMapping[Connection, Transaction] = WeakKeyDictionary()


@contextmanager
def begin(
    site: str | Site,
    *,
    isolation_level: str | None = None,
    timeout: float = TIMEOUT,
    lock_timeout: float = LOCK_TIMEOUT,
    idle_timeout: float = IDLE_TIMEOUT,
) -> Iterator[Connection]:
    """Change snapshots and their master tables in one transaction (two-phase commit).

    After each statement its changes are applied at the master, where rows are locked
    and conflicts settled or raised. At the end of the block all sites commit, or none.

    Parameters:
        site: the snapshot site, or its name in the settings.
        isolation_level: of the transaction at the site and its masters; the database's
            own when not given.
        timeout: seconds that a master may take to answer before all is rolled back.
        lock_timeout: seconds to wait for a row that another session has locked.
        idle_timeout: seconds after which a transaction that its application has
            forgotten is ended.

    Raises:
        SynchronousConflict: no rule of the master settles it; has old, new and current.
        RefusedByMaster, SiteUnreachable: a master cannot make the site's changes.
        OlderSchema, NewerSchema: another version of Snaptide made the schema of a side.
        PendingCalls: the row has changes that wait for a push.
        CommitFailed: nothing was changed anywhere.
        OutcomeUnknown: the site was lost while it committed; recovery finishes it.
        ValueError: a timeout is not between a millisecond and `LONGEST`.
    """
    found = configured.site(site) if isinstance(site, str) else site
    limits = _limits(
        timeout=timeout, lock_timeout=lock_timeout, idle_timeout=idle_timeout
    )
    options: dict[str, Any] = {} if limits == LIMITS else {"snaptide_limits": limits}
    if isolation_level is not None:
        options["isolation_level"] = isolation_level
    with found.open(_engine(found)) as connection:
        if options:
            connection.execution_options(**options)
        with connection.begin():
            yield connection


def coordinate(
    engine: Engine,
    site: str | Site,
    *,
    timeout: float = TIMEOUT,
    lock_timeout: float = LOCK_TIMEOUT,
    idle_timeout: float = IDLE_TIMEOUT,
) -> None:
    """Make every transaction of an engine a coordinated one, sessions' too.

    Parameters:
        engine: the application's engine, with the driver psycopg, to the site's
            database, as a user who may coordinate (docs/howto/security.md); see
            `begin` for the other parameters.

    Raises:
        NotCoordinated: the engine has another driver.
        SiteChanged, SiteNotInitialised, NotAMember: it leads to another database than
            the site's, or its user is no coordinator.
        ValueError: as `begin` does.
    """
    found = configured.site(site) if isinstance(site, str) else site
    limits = _limits(
        timeout=timeout, lock_timeout=lock_timeout, idle_timeout=idle_timeout
    )
    _confirm(engine, found)
    _listen(engine, SiteCache(found), limits)


def _limits(**seconds: float) -> dict[str, float]:
    """Check each limit: to database and driver, 0 would mean to wait forever."""
    for name, value in seconds.items():
        if not SHORTEST <= value <= LONGEST:
            raise ValueError(
                f"{name} must be between {SHORTEST} and {LONGEST} seconds, not {value}"
            )
    return seconds


def _confirm(engine: Engine, site: Site) -> None:
    """Check that an engine can be coordinated, before anything is changed."""
    if engine.dialect.driver != "psycopg" or engine.dialect.is_async:
        raise NotCoordinated(
            f"An engine for {engine.dialect.name}+{engine.dialect.driver} cannot be "
            "coordinated.",
            site=site.name,
        )
    with engine.connect() as connection:
        identity.confirm(connection, site.name)


def _engine(site: Site) -> Engine:
    """The site's pool of connections whose transactions are coordinated."""

    def make() -> Engine:
        engine = site.new_engine(
            for_programs=True,
            pool_size=8,
            max_overflow=56,
        )
        event.listen(engine, "do_connect", session.connect)
        session.set_once(engine, LIMITS)
        # SQLAlchemy's questions on its first connection are not to be coordinated.
        with site.session(engine):
            pass
        _listen(engine, SiteCache(site), LIMITS)
        return engine

    return site.pool("coordinated", make)


def _listen(engine: Engine, site_cache: SiteCache, limits: Mapping[str, float]) -> None:
    def begin(connection: Connection) -> None:
        if driver_of(connection).autocommit:
            raise NoTransaction("A connection in autocommit mode has no transactions.")
        own = connection.get_execution_options().get("snaptide_limits", limits)
        _open[connection] = Transaction(connection, site_cache, own)

    def execute(cursor: Any, statement: str, values: Any, context: Any) -> bool:
        return _transaction(context).execute(cursor, statement, values)

    def execute_many(cursor: Any, statement: str, values: Any, context: Any) -> bool:
        return _transaction(context).execute_many(cursor, statement, values)

    def execute_no_params(cursor: Any, statement: str, context: Any) -> bool:
        return _transaction(context).execute(cursor, statement, None)

    master_connection.close_with(engine)
    event.listen(engine, "begin", begin)
    event.listen(engine, "do_execute", execute)
    event.listen(engine, "do_executemany", execute_many)
    event.listen(engine, "do_execute_no_params", execute_no_params)
    event.listen(engine, "commit", _commit)
    event.listen(engine, "rollback", _rollback)


def _transaction(context: ExecutionContext) -> Transaction:
    found = _open.get(context.root_connection)
    if found is None:
        raise NoTransaction(
            "The connection has begun a two-phase transaction itself, which cannot "
            "be coordinated."
        )
    return found


def _commit(connection: Connection) -> None:
    transaction = _open.get(connection)
    if transaction is not None:
        try:
            commit(transaction)
        finally:
            transaction.end()
            _open.pop(connection, None)


def _rollback(connection: Connection) -> None:
    transaction = _open.pop(connection, None)
    if transaction is not None:
        transaction.end()
