"""Sends statements of ours to a server at once, and reads their answers at once.

For a few rows, a round trip takes longer than a statement, and so does what a cursor
does around it. Here statements share a round trip, also with the BEGIN before them, and
a session keeps each prepared under a name. Others wait for the next one (`hold`), or
run while the caller works elsewhere (`send`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import IsolationLevel, adapt, capabilities, errors, generators
from psycopg.abc import Buffer, PQGen, Transformer
from psycopg.adapt import PyFormat
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql.psycopg import dialect
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError

Driver = psycopg.Connection[Any]

_DIALECT = dialect()  # type: ignore[no-untyped-call]
_BEGIN = {
    None: b"BEGIN",
    IsolationLevel.READ_COMMITTED: b"BEGIN ISOLATION LEVEL READ COMMITTED",
    IsolationLevel.REPEATABLE_READ: b"BEGIN ISOLATION LEVEL REPEATABLE READ",
    IsolationLevel.SERIALIZABLE: b"BEGIN ISOLATION LEVEL SERIALIZABLE",
}
_GOOD = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.EMPTY_QUERY)
_STRING = psycopg.adapters.types["text"].oid
_numbers = itertools.count(1)

#: A session keeps so many statements at most; an error shows so much of its own one.
MOST, SHOWN = 500, 2000

#: Closing a statement that is not there is no error.
_CLOSES = capabilities.has_send_close_prepared()

#: A session, as SQLAlchemy and the driver have it.
_Place: TypeAlias = tuple[Connection, Driver]

#: The text of a statement, and the types of its values.
_Key: TypeAlias = tuple[bytes, tuple[int, ...]]

#: A statement as it goes to the server, its values with their formats; is it kept?
_Dumped: TypeAlias = tuple[_Key, Sequence[Buffer | None], Sequence[Format], bool]


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement, and the values of $1, $2 and so on."""

    text: bytes
    values: Sequence[Any] = ()
    #: whether its session keeps it prepared
    kept: bool = True

    def __str__(self) -> str:
        return self.text.decode()


class Answer(IteratorResult[*tuple[Any, ...]]):
    """The rows that a statement has returned, and how many it has touched."""

    rowcount: int


@dataclass(slots=True, eq=False)
class Later:
    """A statement whose answer is read when it is needed."""

    statement: Bound
    #: where it is run; None if nobody reads the answer
    at: _Place | None = None
    result: PGresult | None = None

    def answer(self) -> Answer:
        """The answer; sends the statement before, and waits for it, if need be.

        Raises:
            sqlalchemy.exc.DBAPIError: it failed, or one that was sent with it.
        """
        return _answer(self.statement, *self._answered())

    def texts(self) -> list[tuple[str | None, ...]]:
        """The rows as the server prints them; sends and raises as `answer` does."""
        session, found = self._answered()
        session.values.set_pgresult(found, set_loaders=False)
        session.values.set_loader_types([_STRING] * found.nfields, Format.TEXT)
        return session.values.load_rows(0, found.ntuples, tuple)

    def _answered(self) -> tuple[_Session, PGresult]:
        assert self.at is not None
        connection, driver = self.at
        if self.result is None:
            with reported(connection, said=self.statement):
                send_held(driver)
        if self.result is None:
            raise RuntimeError("A rollback or an error has dropped it.")
        return _session(driver), self.result


@dataclass(slots=True)
class _Session:
    """What a session keeps: statements by text and types of values, and their names."""

    values: Transformer
    #: whether its server is to prepare statements at all
    keeps: bool
    names: dict[_Key, bytes] = field(default_factory=dict)
    #: the columns of what a statement returns, by the text of it
    metadata: dict[bytes, SimpleResultMetaData] = field(default_factory=dict)
    #: names of statements that the server may have, and that are used no more
    former: list[bytes] = field(default_factory=list)
    #: statements that are sent with the next ones
    held: list[Later] = field(default_factory=list)
    #: what was sent: for each result to come, the statement that it is of, if any
    sent: list[Later | None] = field(default_factory=list)
    #: statements that are prepared with it
    new: dict[_Key, bytes] = field(default_factory=dict)


_sessions: MutableMapping[Driver, _Session] = WeakKeyDictionary()
#: Of several statements that were sent together, the one that an error is of.
_failed: MutableMapping[psycopg.Error, Bound] = WeakKeyDictionary()


def exchange(connection: Connection, *statements: Bound) -> list[Answer]:
    """Run statements in one round trip, in a transaction; return the answer to each.

    Raises:
        sqlalchemy.exc.DBAPIError: of the first that failed; later ones were not run.
    """
    at = connection, raw(connection)
    asked = [Later(one, at) for one in statements]
    _run(at, asked)
    return [one.answer() for one in asked]


def send(connection: Connection, *statements: Bound) -> list[Later]:
    """Send statements as a transaction of their own, and go on without the answers.

    In a transaction, or with statements that are held in one, they are part of it.
    Whatever uses the session next waits for the answers first, and raises the error if
    there was one.
    """
    at = connection, driver_of(connection)
    asked = [Later(one, at) for one in statements]
    with reported(connection, said=statements[0]):
        _start(at[1], asked, apart=not connection.in_transaction())
    return asked


def hold(connection: Connection, statement: Bound) -> Later:
    """Have a statement sent with the next one of its session, or with the commit.

    An error is raised by what it is sent with. A rollback forgets it. Without a
    transaction to wait in, it is run at once.
    """
    at = connection, raw(connection)
    asked = Later(statement, at)
    if may_hold(at[1]):
        _session(at[1]).held.append(asked)
    else:
        _run(at, [asked])
    return asked


def _run(at: _Place, asked: Sequence[Later]) -> None:
    connection, driver = at
    with reported(connection, said=asked[0].statement):
        _start(driver, asked, apart=False)
        settle(driver)


def may_hold(driver: Driver) -> bool:
    """Whether a session is one of ours, and statements can wait in a transaction."""
    return _session(driver).keeps and not driver.autocommit


def send_held(driver: Driver, *last: Bound, always: bool = False) -> bool:
    """Run what a session holds, if anything, and these after it.

    Parameters:
        always: run these also if it holds nothing.

    Returns:
        Whether there was anything to run.
    """
    settle(driver)
    session = _sessions.get(driver)
    if not (always or (session is not None and session.held)):
        return False
    _start(driver, [*map(Later, last)], apart=False)
    settle(driver)
    return True


def settle(driver: Driver) -> None:
    """Wait for what was sent, if anything.

    Raises:
        psycopg.Error: it has failed.
    """
    session = _sessions.get(driver)
    if session is not None and session.sent:
        _receive(driver, session)


def keep(driver: Driver) -> None:
    """Let a session prepare statements; whatever drops objects has to `forget` them."""
    _sessions[driver] = _Session(adapt.Transformer(driver), keeps=True)


def drop_held(driver: Driver) -> None:
    """Forget what a session holds, at a rollback, and wait for what was sent.

    Raises:
        psycopg.Error: what was sent has failed, and nobody has heard of it.
    """
    if session := _sessions.get(driver):
        session.held.clear()
    settle(driver)


def forget(driver: Driver) -> None:
    """Have a session prepare all again, as its server or its objects may be others."""
    if session := _sessions.get(driver):
        session.former += session.names.values()
        session.names.clear()
        session.metadata.clear()


def raw(connection: Connection) -> Driver:
    """The driver's connection below; begins its transaction if there is none yet."""
    if not connection.in_transaction():
        connection.begin()
    return driver_of(connection)


def driver_of(connection: Connection) -> Driver:
    """The driver's connection below, as it is."""
    return cast("Driver", connection.connection.driver_connection)


@contextmanager
def reported(*connections: Connection, said: object = "COPY") -> Iterator[None]:
    """Raise the driver's errors as SQLAlchemy's, and invalidate broken connections.

    Parameters:
        said: the statement that the error shows, or its beginning.
    """
    try:
        yield
    except psycopg.Error as error:
        said = _failed.get(error, said)
        broken = [c for c in connections if driver_of(c).closed]
        for connection in broken:
            connection.invalidate(error)
        raise DBAPIError.instance(
            f"{said!s:.{SHOWN}}",
            None,
            error,
            psycopg.Error,
            connection_invalidated=bool(broken),
            dialect=_DIALECT,
        ) from error


def _session(driver: Driver) -> _Session:
    found = _sessions.get(driver)
    if found is None:
        found = _sessions[driver] = _Session(adapt.Transformer(driver), keeps=False)
    if len(found.names) > MOST:
        forget(driver)
    return found


def _start(driver: Driver, asked: Sequence[Later], *, apart: bool) -> None:
    """Send statements, after those that are held; wait for what was sent before."""
    settle(driver)
    session, pgconn = _session(driver), driver.pgconn
    # What Python cannot carry is refused before any is sent, and the rest waits.
    sending = [(o, _dumped(session, o.statement)) for o in (*session.held, *asked)]
    # What is held waits in a transaction, also for statements that need none.
    begins = (
        (session.held or not apart)
        and not driver.autocommit
        and driver.info.transaction_status is TransactionStatus.IDLE
    )
    session.held.clear()
    session.new, answers = {}, list[Later | None]()
    with driver.lock, _leaving_at_failure(pgconn):
        pgconn.enter_pipeline_mode()
        if _CLOSES:
            for name in session.former:
                pgconn.send_close_prepared(name)
                answers.append(None)
        if begins:
            pgconn.send_query_params(_BEGIN[driver.isolation_level], None)
            answers.append(None)
        for one, dumped in sending:
            answers += [one] * _send(pgconn, session, dumped)
        pgconn.pipeline_sync()
        driver.wait(generators.send(pgconn))
    session.sent = answers


def _receive(driver: Driver, session: _Session) -> None:
    """Wait for what was sent, and give each statement its answer if all are good."""
    answers, session.sent, pgconn = session.sent, [], driver.pgconn
    with driver.lock, _leaving_at_failure(pgconn):
        results = driver.wait(_results(pgconn))
        for one, result in zip((*answers, None), results, strict=False):
            if result.status not in _GOOD:
                session.former += session.new.values()
                error = errors.error_from_result(result, driver.info.encoding)
                if one is not None:
                    _failed[error] = one.statement
                raise error
        pgconn.exit_pipeline_mode()
    session.names.update(session.new)
    session.former.clear()
    for one, result in zip(answers, results, strict=False):
        if one is not None:
            one.result = result


def _results(pgconn: PGconn) -> PQGen[list[PGresult]]:
    """Read all: a commit without a statement, or a timeout, can fail at the end."""
    found: list[PGresult] = []
    try:
        while some := (yield from generators.fetch_many(pgconn)):
            if some[0].status == ExecStatus.PIPELINE_SYNC:
                break
            found += some
    except psycopg.Error:
        # A server that ends the session says why in the last one.
        if not found or found[-1].status in _GOOD:
            raise
    return found


@contextmanager
def _leaving_at_failure(pgconn: PGconn) -> Iterator[None]:
    """Leave the mode in which statements share a round trip if something fails."""
    try:
        yield
    except BaseException:
        # This fails if the connection was lost, which the error says already.
        with suppress(psycopg.Error):
            pgconn.exit_pipeline_mode()
        raise


def _dumped(session: _Session, statement: Bound) -> _Dumped:
    values, given = session.values, statement.values
    dumped = values.dump_sequence(given, [PyFormat.AUTO] * len(given))
    key = statement.text, values.types or ()
    kept = session.keeps and statement.kept
    return key, dumped, values.formats or (), kept


def _send(pgconn: PGconn, session: _Session, statement: _Dumped) -> int:
    """Send a statement by its name; returns how many results that has."""
    key, values, formats, kept = statement
    if not kept:
        pgconn.send_query_params(key[0], values, key[1], formats)
        return 1
    name = session.names.get(key) or session.new.get(key)
    known = name is not None
    if name is None:
        name = session.new[key] = b"snaptide_kept_%d" % next(_numbers)
        pgconn.send_prepare(name, *key)
    pgconn.send_query_prepared(name, values, formats)
    return 1 if known else 2


def _answer(statement: Bound, session: _Session, result: PGresult) -> Answer:
    values, count = session.values, result.nfields
    values.set_pgresult(result)
    metadata = session.metadata.get(statement.text)
    if metadata is None:
        columns = [(result.fname(n) or b"").decode() for n in range(count)]
        metadata = SimpleResultMetaData(columns)
        if session.keeps and statement.kept:
            session.metadata[statement.text] = metadata
    rows = values.load_rows(0, result.ntuples, tuple) if count else ()
    answer = Answer(metadata, iter(rows))
    answer.rowcount = result.command_tuples or 0
    return answer
