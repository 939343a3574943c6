"""Statements of our own that are sent at once and answered at once.

A synchronous transaction has few of them, and a cursor around each would cost as much
as the server's own work. Values and answers are text.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors, generators
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy import ClauseElement
from sqlalchemy.dialects.postgresql.psycopg import dialect

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

_GOOD = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_Awaited = Mapping[str, bytes]
_DIALECT = dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]

#: What sessions have prepared: by a statement's text, the name that it has there.
_names: MutableMapping[psycopg.Connection[Any], dict[str, bytes]] = WeakKeyDictionary()
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A statement with values for $1, $2 and so on, that its session keeps prepared."""

    text: str
    values: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A statement that is run again and again with other values."""

    text: str
    #: the parameters that $1, $2 and so on stand for
    names: tuple[str, ...]
    #: those that are always the same
    constants: Mapping[str, str]

    @classmethod
    def of(cls, statement: ClauseElement) -> Template:
        """Write a statement out; parameters without a value wait for `bind`."""
        compiled = cast(
            "SQLCompiler",
            statement.compile(
                dialect=_DIALECT, compile_kwargs={"render_postcompile": True}
            ),
        )
        return cls(
            text=str(compiled),
            names=tuple(compiled.positiontup or ()),
            constants={n: v for n, v in compiled.params.items() if v is not None},
        )

    def bind(self, values: Mapping[str, str | None]) -> Bound:
        """Give the parameters their values."""
        known = {**self.constants, **values}
        return Bound(text=self.text, values=[known[name] for name in self.names])


def forget(connection: psycopg.Connection[Any]) -> None:
    """Prepare anew on a session: somebody may have told it to forget."""
    _names.pop(connection, None)


def exchange(connection: psycopg.Connection[Any], *statements: str | Bound) -> PGresult:
    """Run statements in one round trip.

    Returns:
        The answer to the last of them.

    Raises:
        psycopg.Error: that of the first that failed; the later ones were not run.
    """
    pgconn, encoding = connection.pgconn, connection.info.encoding
    names = _names.setdefault(connection, {})
    awaited: list[_Awaited] = []
    pgconn.enter_pipeline_mode()
    try:
        for statement in statements:
            awaited += _send(pgconn, statement, names, encoding)
        pgconn.pipeline_sync()
        answers = connection.wait(_answers(pgconn, len(awaited)))
    finally:
        # Fails where the line was lost, which is what the error says.
        with suppress(psycopg.Error):
            pgconn.exit_pipeline_mode()
    for prepared, answer in zip(awaited, answers, strict=True):
        if answer.status not in _GOOD:
            error = errors.error_from_result(answer, encoding)
            if isinstance(error, errors.InvalidSqlStatementName):
                forget(connection)
            raise error
        names.update(prepared)
    return answers[-1]


def command(connection: psycopg.Connection[Any], statement: str) -> None:
    """Run one statement that takes no values, and has nothing to answer.

    Raises:
        psycopg.Error: it failed.
    """
    encoding = connection.info.encoding
    connection.pgconn.send_query(statement.encode(encoding))
    answer = connection.wait(generators.execute(connection.pgconn))[-1]
    if answer.status not in _GOOD:
        raise errors.error_from_result(answer, encoding)


def _send(
    pgconn: PGconn, statement: str | Bound, names: dict[str, bytes], encoding: str
) -> list[_Awaited]:
    """Send a statement; for each answer that it will have, what is prepared then."""
    if isinstance(statement, str):
        pgconn.send_query_params(statement.encode(encoding), None)
        return [{}]
    text = statement.text
    values = [None if v is None else v.encode(encoding) for v in statement.values]
    if text in names:
        pgconn.send_query_prepared(names[text], values)
        return [{}]
    name = b"snaptide_%d" % next(_numbers)
    pgconn.send_prepare(name, text.encode(encoding))
    pgconn.send_query_prepared(name, values)
    return [{text: name}, {}]


def _answers(pgconn: PGconn, count: int) -> PQGen[list[PGresult]]:
    """The answers of a round trip, which ends with one to its end."""
    yield from generators.send(pgconn)
    found: list[PGresult] = []
    for _ in range(count + 1):
        found += yield from generators.fetch_many(pgconn)
    return found[:count]
