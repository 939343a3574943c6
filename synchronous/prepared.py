"""Statements of coordinated transactions, which their sessions keep prepared.

Our own statements are prepared the first time. Those of applications are prepared as
their driver would do it, after some runs, but only if they return no rows: PostgreSQL
refuses the plan of one that does once its table has other columns.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.abc import Buffer
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy import ClauseElement

from sites.sessions.prepared import write_out

#: How often an application's statement is run before it is prepared, and how many of
#: them a session keeps.
OFTEN, MOST = 5, 100

_CHANGES = (b"INSERT", b"UPDATE", b"DELETE", b"MERGE")
_numbers = itertools.count(1)

_Key = tuple[bytes, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A statement with values for $1, $2 and so on."""

    text: str
    values: Sequence[str | None] = ()
    #: whether its session keeps it prepared
    kept: bool = True


#: Ends a transaction.
COMMIT = Bound(text="COMMIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A statement whose values are still to come."""

    text: str
    #: the parameters that $1, $2 and so on stand for
    names: tuple[str, ...]
    #: the values that are always the same
    constants: Mapping[str, str]

    @classmethod
    def of(cls, statement: ClauseElement) -> Template:
        """Write a statement out; parameters without a value wait for `bind`."""
        text, names, constants = write_out(statement)
        known = {n: str(v) for n, v in constants.items() if v is not None}
        return cls(text=text, names=names, constants=known)

    def bind(self, values: Mapping[str, str | None]) -> Bound:
        """Give the parameters their values."""
        known = {**self.constants, **values}
        return Bound(text=self.text, values=[known[name] for name in self.names])


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A statement of an application, as its driver would send it."""

    text: bytes
    values: Sequence[Buffer | None] | None
    #: oids of the values' types
    types: tuple[int, ...]
    formats: Sequence[Format] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """An answer to come, and the statement to note once it is good."""

    #: a statement that is prepared then, and its name
    prepared: tuple[_Key, bytes] | None = None
    #: one that was run without being prepared
    counted: _Key | None = None


_NOTHING_NEW = Awaited()


class Session:
    """The statements that one session has prepared."""

    def __init__(self) -> None:
        self._names: dict[_Key, bytes] = {}
        self._counts: Counter[_Key] = Counter()

    def send_bound(self, pgconn: PGconn, bound: Bound, encoding: str) -> list[Awaited]:
        """Send a statement of our own."""
        text = bound.text.encode(encoding)
        values = [None if v is None else v.encode(encoding) for v in bound.values]
        if not bound.kept:
            pgconn.send_query_params(text, values)
            return [_NOTHING_NEW]
        return self._send(pgconn, (text, ()), values, None)

    def send_translated(self, pgconn: PGconn, given: Translated) -> list[Awaited]:
        """Send a statement of an application."""
        key = (given.text, given.types)
        often = self._counts[key] >= OFTEN and len(self._names) < MOST
        if often or key in self._names:
            return self._send(pgconn, key, given.values, given.formats)
        pgconn.send_query_params(given.text, given.values, given.types, given.formats)
        return [Awaited(counted=key)]

    def note(self, awaited: Awaited, answer: PGresult) -> None:
        """Remember, after a good answer, the statement that was prepared or run."""
        if awaited.prepared:
            key, name = awaited.prepared
            self._names[key] = name
        elif awaited.counted and _only_changes(answer):
            if len(self._counts) > MOST:
                self._counts.clear()
            self._counts[awaited.counted] += 1

    def _send(
        self,
        pgconn: PGconn,
        key: _Key,
        values: Sequence[Buffer | None] | None,
        formats: Sequence[Format] | None,
    ) -> list[Awaited]:
        """Run a statement by its name; prepare it first if it has none."""
        if key in self._names:
            pgconn.send_query_prepared(self._names[key], values, formats)
            return [_NOTHING_NEW]
        name = b"snaptide_%d" % next(_numbers)
        pgconn.send_prepare(name, *key)
        pgconn.send_query_prepared(name, values, formats)
        return [Awaited(prepared=(key, name)), _NOTHING_NEW]


_sessions: MutableMapping[psycopg.Connection[Any], Session] = WeakKeyDictionary()


def session(connection: psycopg.Connection[Any]) -> Session:
    """The statements that a connection's session has prepared."""
    found = _sessions.get(connection)
    if found is None:
        found = _sessions[connection] = Session()
    return found


def forget(connection: psycopg.Connection[Any]) -> None:
    """Let a session prepare again: its server may have forgotten all statements."""
    _sessions.pop(connection, None)


def _only_changes(answer: PGresult) -> bool:
    status = answer.command_status or b""
    return answer.status == ExecStatus.COMMAND_OK and status.startswith(_CHANGES)
