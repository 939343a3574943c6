"""Sends several statements at once, and reads their answers at once.

A synchronous transaction has few of them, and a cursor around each would cost as much
as the server's own work. Values and answers of our own statements are text.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

import psycopg
from psycopg import errors, generators
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.pq import Escaping, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from synchronous import prepared
from synchronous.prepared import Awaited, Bound, Translated

_GOOD = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.EMPTY_QUERY)


class Pipeline:
    """Statements on their way to a server that works while we do something else.

    Between `send` and `answers`, the connection can be used for nothing else. At the
    end of the block, no answer is outstanding.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._encoding = connection.info.encoding
        self._session = prepared.session(connection)
        #: in order; None marks the end of statements that were sent at once
        self._awaited: list[Awaited | None] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def send(self, *statements: Bound | Translated) -> None:
        """Send statements at once; if one fails, the later ones are not run.

        Raises:
            psycopg.Error: the connection was lost.
        """
        self._pgconn.enter_pipeline_mode()
        for one in statements:
            if isinstance(one, Bound):
                sent = self._session.send_bound(self._pgconn, one, self._encoding)
            else:
                sent = self._session.send_translated(self._pgconn, one)
            self._awaited += sent
        self._pgconn.pipeline_sync()
        self._awaited.append(None)
        if self._pgconn.flush():
            self._connection.wait(generators.send(self._pgconn))

    def answers(self) -> list[PGresult]:
        """Wait for all answers, one to each statement.

        Raises:
            psycopg.Error: the error of the first statement that failed.
        """
        awaited, self._awaited = self._awaited, []
        try:
            found = self._connection.wait(_answers(self._pgconn, len(awaited)))
        except BaseException:
            # This fails if the connection was lost, which the error says already.
            with suppress(psycopg.Error):
                self._pgconn.exit_pipeline_mode()
            raise
        self._pgconn.exit_pipeline_mode()
        good = []
        for one, answer in zip(awaited, found, strict=True):
            if one is None:
                continue
            if answer.status not in _GOOD:
                raise self._error(answer)
            self._session.note(one, answer)
            if not one.prepared:
                good.append(answer)
        return good

    def drop(self) -> None:
        """Wait for outstanding answers, and ignore them."""
        if self._awaited:
            with suppress(psycopg.Error):
                self.answers()

    def _error(self, answer: PGresult) -> psycopg.Error:
        error = errors.error_from_result(answer, self._encoding)
        if isinstance(error, errors.InvalidSqlStatementName):
            prepared.forget(self._connection)
        return error


def exchange(connection: psycopg.Connection[Any], *statements: Bound) -> PGresult:
    """Run statements in one round trip.

    Returns:
        The answer to the last of them.

    Raises:
        psycopg.Error: of the first statement that failed; later ones were not run.
    """
    pipeline = Pipeline(connection)
    pipeline.send(*statements)
    return pipeline.answers()[-1]


def run_and_ask(
    cursor: psycopg.Cursor[Any], statement: str, values: Any, question: Bound
) -> PGresult:
    """Run a statement as its cursor would, and a question of ours in its round trip.

    The driver has a pipeline for that, which costs the application's process more than
    the statement itself, and one more round trip for BEGIN. So the driver only
    translates the statement and reads its answer.

    Returns:
        The answer to the question; the cursor has the answer to the statement.

    Raises:
        psycopg.Error: the statement failed; nothing was asked.
    """
    driver = cursor.connection
    cursor._tx = Transformer(cursor)
    query = cursor._convert_query(statement, values)
    with Pipeline(driver) as site:
        site.send(
            *_begin(driver),
            Translated(
                text=query.query,
                values=query.params,
                types=query.types,
                formats=query.formats,
            ),
            question,
        )
        *_, answer, asked = site.answers()
    cursor._set_results([answer])
    return asked


def rows_of(driver: psycopg.Connection[Any], answer: PGresult) -> list[tuple[Any, ...]]:
    """The rows of an answer, as the driver reads values."""
    if not answer.ntuples:
        return []
    reader = Transformer(driver)
    reader.set_pgresult(answer)
    return reader.load_rows(0, answer.ntuples, tuple)


def _begin(driver: psycopg.Connection[Any]) -> list[Bound]:
    """The statement that begins a transaction as the driver would, if none is open."""
    if driver.autocommit or driver.pgconn.transaction_status != TransactionStatus.IDLE:
        return []
    return [Bound(text=driver._get_tx_start_command().decode())]


def command(connection: psycopg.Connection[Any], verb: str, name: str) -> None:
    """Send one of the statements of two-phase commit, which take no parameters.

    Raises:
        psycopg.Error: the connection was lost.
    """
    pgconn = connection.pgconn
    literal = Escaping(pgconn).escape_literal(name.encode())
    pgconn.send_query(verb.encode() + b" " + literal)
    if pgconn.flush():
        connection.wait(generators.send(pgconn))


def done(connection: psycopg.Connection[Any], verb: str) -> None:
    """Wait until a statement that `command` has sent is done.

    Parameters:
        verb: of the statement. PostgreSQL answers to PREPARE TRANSACTION with ROLLBACK,
            and with no error, if the transaction has failed before.

    Raises:
        psycopg.Error: it failed, or the server has done something else.
    """
    answer = connection.wait(generators.fetch_many(connection.pgconn))[-1]
    if answer.status not in _GOOD:
        raise errors.error_from_result(answer, connection.info.encoding)
    if answer.command_status != verb.encode():
        told = (answer.command_status or b"").decode()
        raise errors.InFailedSqlTransaction(f"the answer to {verb} was {told}")


def _answers(pgconn: PGconn, count: int) -> PQGen[list[PGresult]]:
    """Read answers one after the other."""
    found: list[PGresult] = []
    for _ in range(count):
        found += yield from generators.fetch_many(pgconn)
    return found
