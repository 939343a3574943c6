"""Sends statements of ours to a server at once, and reads their answers at once.

For a few rows, a round trip takes longer than a statement, and so does what a cursor
does around it. Here statements share a round trip, also with the BEGIN before them, and
a session keeps each prepared under a name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast
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
_GOOD = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.EMPTY_QUERY)
_BEGIN = {
    None: b"BEGIN",
    IsolationLevel.READ_COMMITTED: b"BEGIN ISOLATION LEVEL READ COMMITTED",
    IsolationLevel.REPEATABLE_READ: b"BEGIN ISOLATION LEVEL REPEATABLE READ",
    IsolationLevel.SERIALIZABLE: b"BEGIN ISOLATION LEVEL SERIALIZABLE",
}
_numbers = itertools.count(1)

#: A session keeps so many statements at most.
MOST = 500

#: Closing a statement that is not there is no error.
_CLOSES = capabilities.has_send_close_prepared()


#: The text of a statement, and the types of its values.
_Key: TypeAlias = tuple[bytes, tuple[int, ...]]


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


@dataclass(slots=True)
class _Session:
    """What a session keeps: statements by text and types of values, and their names."""

    values: Transformer
    #: whether its server is to prepare statements at all
    keeps: bool
    names: dict[_Key, bytes] = field(default_factory=dict)
    #: by the names of columns
    metadata: dict[tuple[str, ...], SimpleResultMetaData] = field(default_factory=dict)
    #: names of statements that the server may have, and that are used no more
    former: list[bytes] = field(default_factory=list)
    #: statements that are sent with the next ones
    held: list[Bound] = field(default_factory=list)


_sessions: MutableMapping[psycopg.Connection[Any], _Session] = WeakKeyDictionary()


def exchange(connection: Connection, *statements: Bound) -> list[Answer]:
    """Run statements in one round trip; begin a transaction if there has to be one.

    Returns:
        The answer to each.

    Raises:
        sqlalchemy.exc.DBAPIError: of the first that failed; later ones were not run.
    """
    driver = raw(connection)
    with reported(connection, said=str(statements[0])):
        session = _session(driver)
        found = _exchanged(driver, session, statements)
        return [_answer(session, one) for one in found]


def texts(connection: Connection, statement: Bound) -> list[list[str | None]]:
    """Run a statement as `exchange` does; returns its rows as the server prints them.

    Raises:
        sqlalchemy.exc.DBAPIError: it failed.
    """
    driver = raw(connection)
    with reported(connection, said=str(statement)):
        [found] = _exchanged(driver, _session(driver), [statement])
    columns = range(found.nfields)
    return [
        [_text(found.get_value(n, m)) for m in columns] for n in range(found.ntuples)
    ]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def hold(connection: Connection, statement: Bound) -> None:
    """Have a statement sent with the next one of its session, or with the commit.

    For those whose answer nobody reads: an error is raised by what they are sent with.
    A rollback forgets them. Without a transaction to wait in, it is run at once.
    """
    if may_hold(connection):
        _session(raw(connection)).held.append(statement)
    else:
        exchange(connection, statement)


def may_hold(connection: Connection) -> bool:
    """Whether a session is one of ours, and statements can wait in a transaction."""
    driver = driver_of(connection)
    return _session(driver).keeps and not driver.autocommit


def send_held(driver: psycopg.Connection[Any], *last: Bound) -> bool:
    """Run what a session holds, if anything, and these after it.

    Returns:
        Whether there was anything.
    """
    session = _sessions.get(driver)
    if session is None or not session.held:
        return False
    _exchanged(driver, session, last)
    return True


def keep(driver: psycopg.Connection[Any]) -> None:
    """Let a session prepare statements; whatever drops objects has to `forget` them."""
    _sessions[driver] = _Session(adapt.Transformer(driver), keeps=True)


def drop_held(driver: psycopg.Connection[Any]) -> None:
    """Forget what a session holds, at a rollback."""
    if session := _sessions.get(driver):
        session.held.clear()


def forget(driver: psycopg.Connection[Any]) -> None:
    """Have a session prepare all statements again.

    Its server may have dropped them, or objects that they name may be others now.
    """
    if session := _sessions.get(driver):
        session.former += session.names.values()
        session.names.clear()


def command(driver: psycopg.Connection[Any], text: bytes) -> None:
    """Send a statement without values, or several, and wait until all are done.

    Raises:
        psycopg.Error: one has failed.
    """
    with driver.lock:
        driver.pgconn.send_query(text)
        for result in driver.wait(generators.execute(driver.pgconn)):
            if result.status not in _GOOD:
                raise errors.error_from_result(result, driver.info.encoding)


def raw(connection: Connection) -> Driver:
    """The driver's connection below; begins its transaction if there is none yet."""
    if not connection.in_transaction():
        connection.begin()
    return driver_of(connection)


def driver_of(connection: Connection) -> Driver:
    """The driver's connection below, as it is."""
    return cast("Driver", connection.connection.driver_connection)


@contextmanager
def reported(*connections: Connection, said: str = "COPY") -> Iterator[None]:
    """Raise the driver's errors as SQLAlchemy's, and invalidate broken connections.

    Parameters:
        said: the statement that the error shows.
    """
    try:
        yield
    except psycopg.Error as error:
        broken = [c for c in connections if driver_of(c).closed]
        for connection in broken:
            connection.invalidate(error)
        raise DBAPIError.instance(
            said,
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


def _exchanged(
    driver: psycopg.Connection[Any], session: _Session, statements: Sequence[Bound]
) -> list[PGresult]:
    """Send statements, and wait for the good results of all."""
    pgconn = driver.pgconn
    # What Python cannot carry is refused before anything is sent, and the rest waits.
    sending = [_dumped(session, one) for one in (*session.held, *statements)]
    session.held.clear()
    new: dict[_Key, bytes] = {}
    begins = (
        not driver.autocommit
        and driver.info.transaction_status is TransactionStatus.IDLE
    )
    wanted = list[bool]()
    with driver.lock:
        pgconn.enter_pipeline_mode()
        try:
            if _CLOSES:
                for name in session.former:
                    pgconn.send_close_prepared(name)
                    wanted.append(False)
            if begins:
                pgconn.send_query_params(_BEGIN[driver.isolation_level], None)
                wanted.append(False)
            for one in sending:
                wanted += _send(pgconn, session, new, one)
            pgconn.pipeline_sync()
            results = driver.wait(_results(pgconn, len(wanted) + 1))
        except BaseException:
            # This fails if the connection was lost, which the error says already.
            with suppress(psycopg.Error):
                pgconn.exit_pipeline_mode()
            raise
        pgconn.exit_pipeline_mode()
    for result in results[:-1]:
        if result.status not in _GOOD:
            raise errors.error_from_result(result, driver.info.encoding)
    session.names.update(new)
    session.former.clear()
    answers = [one for one, asked in zip(results, wanted, strict=False) if asked]
    return answers[len(sending) - len(statements) :]


class _Dumped(NamedTuple):
    """A statement as it goes to the server."""

    key: _Key
    values: Sequence[Buffer | None]
    formats: Sequence[Format]
    kept: bool


def _dumped(session: _Session, statement: Bound) -> _Dumped:
    values, given = session.values, statement.values
    dumped = values.dump_sequence(given, [PyFormat.AUTO] * len(given))
    key = statement.text, values.types or ()
    kept = session.keeps and statement.kept
    return _Dumped(key, dumped, values.formats or (), kept)


def _send(
    pgconn: PGconn, session: _Session, new: dict[_Key, bytes], statement: _Dumped
) -> list[bool]:
    """Send a statement by its name; prepare it first if it has none.

    Returns:
        For each result to come, whether it is the answer.
    """
    key, values, formats, kept = statement
    if not kept:
        pgconn.send_query_params(key[0], values, key[1], formats)
        return [True]
    name, sent = session.names.get(key) or new.get(key), [True]
    if name is None:
        name = new[key] = b"snaptide_kept_%d" % next(_numbers)
        pgconn.send_prepare(name, *key)
        sent = [False, True]
    pgconn.send_query_prepared(name, values, formats)
    return sent


def _results(pgconn: PGconn, count: int) -> PQGen[list[PGresult]]:
    """Send all, and read results one after the other."""
    yield from generators.send(pgconn)
    found: list[PGresult] = []
    for _ in range(count):
        found += yield from generators.fetch_many(pgconn)
    return found


def _answer(session: _Session, result: PGresult) -> Answer:
    values = session.values
    values.set_pgresult(result)
    columns = tuple((result.fname(n) or b"").decode() for n in range(result.nfields))
    metadata = session.metadata.get(columns)
    if metadata is None:
        metadata = session.metadata[columns] = SimpleResultMetaData(columns)
    rows = values.load_rows(0, result.ntuples, tuple) if columns else ()
    answer = Answer(metadata, iter(rows))
    answer.rowcount = result.command_tuples or 0
    return answer
