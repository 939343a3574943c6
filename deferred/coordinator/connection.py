"""Coordinated transactions for applications: by a block, or for an engine."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, event

from deferred.coordinator import home, idle, line, session
from deferred.coordinator.knowledge import Knowledge
from deferred.coordinator.transaction import Transaction
from deferred.errors import NoTransaction
from sites import Site, configured

#: Seconds: a master may take as long to answer.
TIMEOUT = 10.0
#: Seconds: a row may be held by others as long, where the session does not say.
LOCK_TIMEOUT = 5.0
#: Seconds: a transaction may be left alone as long, at the site and its masters.
IDLE_TIMEOUT = 60.0

LIMITS = {
    "timeout": TIMEOUT,
    "lock_timeout": LOCK_TIMEOUT,
    "idle_timeout": IDLE_TIMEOUT,
}

#: By connection, not on it: one that was lost has to be rolled back at the masters too.
_open: MutableMapping[Connection, Transaction] = WeakKeyDictionary()


@contextmanager
def synchronous(
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
        lock_timeout: seconds to wait for a row that somebody else has locked.
        idle_timeout: seconds after which a transaction that its application has
            forgotten is ended.

    Raises:
        SynchronousConflict: no rule of the master settles it; has old, new and current.
        RefusedByMaster, SiteUnreachable: a master cannot do what the site did.
        PendingCalls: the row has changes that wait for a push.
        CommitFailed: nothing was changed anywhere.
        OutcomeUnknown: the site was lost while it committed; recovery finishes it.
    """
    found = configured.site(site) if isinstance(site, str) else site
    limits = {
        "timeout": timeout,
        "lock_timeout": lock_timeout,
        "idle_timeout": idle_timeout,
    }
    options: dict[str, Any] = {"snaptide_limits": limits}
    if isolation_level is not None:
        options["isolation_level"] = isolation_level
    with found.connect(_engine(found)) as plain:
        connection = plain.execution_options(**options)
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

    The engine leads to the site's database, as a user who owns the schema snaptide.

    Parameters:
        engine: the application's own; see `synchronous` for the others.
    """
    found = configured.site(site) if isinstance(site, str) else site
    limits = {
        "timeout": timeout,
        "lock_timeout": lock_timeout,
        "idle_timeout": idle_timeout,
    }
    engine.connect().close()
    _listen(engine, Knowledge(found), limits)


def _engine(site: Site) -> Engine:
    """A pool of the site's whose transactions are coordinated."""

    def make() -> Engine:
        engine = site.new_engine(
            prepare_threshold=line.ONLY_WHEN_ASKED, pool_size=8, max_overflow=56
        )
        idle.try_after_idling(engine)
        event.listen(engine, "do_connect", home.connect)
        session.set_once(engine, LIMITS)
        # What SQLAlchemy asks on its first connection is in no transaction.
        with site.connect(engine):
            pass
        _listen(engine, Knowledge(site), {})
        return engine

    return site.pool("coordinated", make)


def _listen(engine: Engine, knowledge: Knowledge, limits: dict[str, float]) -> None:
    def begin(connection: Connection) -> None:
        own = connection.get_execution_options().get("snaptide_limits", limits)
        _open[connection] = Transaction(connection, knowledge, own)

    def before(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        _transaction(connection).before(statement)

    def after(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        _transaction(connection).after(statement)

    def execute(
        cursor: Any, statement: str, parameters: Any, context: Any
    ) -> bool | None:
        transaction = _transaction(context.root_connection)
        return transaction.execute(cursor, statement, parameters) or None

    event.listen(engine, "begin", begin)
    event.listen(engine, "do_execute", execute)
    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "after_cursor_execute", after)
    event.listen(engine, "commit", _commit)
    event.listen(engine, "rollback", _rollback)


def _transaction(connection: Connection) -> Transaction:
    found = _open.get(connection)
    if found is None:
        raise NoTransaction("An engine in autocommit mode has no transactions.")
    return found


def _commit(connection: Connection) -> None:
    transaction = _open.get(connection)
    if transaction is not None:
        try:
            transaction.commit()
        finally:
            transaction.end()
            _open.pop(connection, None)


def _rollback(connection: Connection) -> None:
    transaction = _open.pop(connection, None)
    if transaction is not None:
        transaction.end()
