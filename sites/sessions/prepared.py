"""What is made once for a session and used many times: statements, and descriptions.

Statements are built, compiled and prepared once. Tables are described once, and a
session is told only whether that still holds.

SQLAlchemy takes longer to compile most of our statements than PostgreSQL takes to run
them, and keeps what it has compiled for one pool of connections only. The same
statements run at all sites: what is compiled for one of them serves for all.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import (
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.engine import Compiled
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.exc import DBAPIError

from sites.names import QualifiedName
from sites.sessions.exchange import (
    Answer,
    Bound,
    Later,
    driver_of,
    exchange,
    hold,
    may_hold,
    send,
)

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

Kept = TypeVar("Kept")

#: A session keeps the descriptions of so many tables at most.
MOST_TABLES = 256

#: Our dialect in a URL.
DRIVERNAME = "postgresql+snaptide"

#: A process keeps so many compiled statements.
MOST_COMPILED = 2000

_DIALECT = psycopg.dialect()  # type: ignore[no-untyped-call]

#: A parameter in what SQLAlchemy compiles for the driver, or a doubled percent sign.
_PARAMETER = re.compile(r"%(?:%|\(([^)]+)\)s)")


def as_json(
    query: sa.Select[*tuple[Any, ...]] | sa.TextualSelect, name: str
) -> sa.ColumnElement[Any]:
    """The rows of a query as one JSON value, for a statement that reads more.

    It is NULL if there are none, and has ids as text.

    Parameters:
        name: of the value, as a column of that statement.
    """
    rows = query.subquery(name)
    found = sa.select(sa.func.json_agg(sa.literal_column(f'"{name}"')))
    return found.select_from(rows).scalar_subquery().label(name)


def known_tables(connection: Connection) -> dict[QualifiedName, tuple[str, Any]]:
    """By name, the hash of what the catalog said of a table, and its description."""
    kept: dict[QualifiedName, tuple[str, Any]] = connection.info.setdefault(
        "snaptide.tables", {}
    )
    if len(kept) >= MOST_TABLES:
        kept.clear()
    return kept


def write_out(
    statement: sa.ClauseElement,
) -> tuple[str, tuple[str, ...], Mapping[str, object]]:
    """The text of a statement, with parameters as the protocol has them.

    SQLAlchemy would number them itself, but takes a name such as "%(x)s" of a table for
    one. Where it names them, it doubles all other percent signs.

    Returns:
        The text, the names of the parameters that $1, $2 and so on stand for, and by
        name the values that are always the same.
    """
    compiled = cast(
        "SQLCompiler",
        statement.compile(
            dialect=_DIALECT, compile_kwargs={"render_postcompile": True}
        ),
    )
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        if (name := found[1]) is None:
            return "%"
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    return _PARAMETER.sub(number, str(compiled)), (*numbers,), compiled.params


class Prepared:
    """A statement that each session prepares once, for all later runs.

    Building, compiling and planning most of our statements takes longer than running
    them for a few rows. PostgreSQL plans one with the values of its first five runs,
    and then once, if the plan for all values is no worse. It is compiled when it is
    first used.

    Use it for statements that keep their text, and whose tables users cannot alter: the
    result must keep its types.

    Parameters:
        statement: the statement, with a `bindparam` for each value that changes; values
            go to the driver unchanged. If an IN has a list of constants, each of these
            needs some value.
    """

    def __init__(self, statement: sa.ClauseElement) -> None:
        self._statement = statement

    @cached_property
    def _compiled(self) -> tuple[bytes, Sequence[str], Mapping[str, object]]:
        text, names, constants = write_out(self._statement)
        return text.encode(), names, constants

    def run(self, connection: Connection, **values: object) -> Answer:
        """Run the statement with these values."""
        return exchange(connection, self.bound(**values))[0]

    def run_apart(self, connection: Connection, **values: object) -> Answer:
        """Run it as a transaction of its own; the session is outside of one."""
        return self.send(connection, **values).answer()

    def hold(self, connection: Connection, **values: object) -> Later:
        """Have it run with the next statement, as `exchange.hold` does."""
        return hold(connection, self.bound(**values))

    def send(self, connection: Connection, **values: object) -> Later:
        """Have it run while the caller works elsewhere, as `exchange.send` does."""
        return send(connection, self.bound(**values))[0]

    def give_back(self, connection: Connection, **values: object) -> None:
        """Run it apart, if it gives back locks of a session that is not broken.

        The session may break then, or a statement has failed that was sent before, and
        whose answer was not read. So it is closed, and the locks end with it.
        """
        if connection.invalidated:
            return
        try:
            connection.rollback()
            self.run_apart(connection, **values)
        except DBAPIError:
            connection.invalidate()

    def bound(self, **values: object) -> Bound:
        """The statement with these values, to be run in one exchange with others."""
        text, names, constants = self._compiled
        known = {**constants, **values}
        return Bound(text, [known[name] for name in names])


def which(conditions: Iterable[sa.ColumnElement[bool]]) -> Prepared:
    """Asks which of some conditions hold, by number; there is at least one."""
    return Prepared(
        sa.union_all(
            *(
                sa.select(sa.literal_column(str(number))).where(condition)
                for number, condition in enumerate(conditions)
            )
        )
    )


class Dialect(psycopg.PGDialect_psycopg):
    """SQLAlchemy's dialect of psycopg; two for servers of one version are equal.

    SQLAlchemy looks a compiled statement up by its dialect, too. What else a dialect
    learns from its server and compiles by is in the settings of all our sessions.
    """

    supports_statement_cache = True

    def do_savepoint(self, connection: Connection, name: str) -> None:
        """Set a savepoint; a session of ours does with the first statement after it."""
        if not may_hold(driver_of(connection)):
            super().do_savepoint(connection, name)  # type: ignore[no-untyped-call]
            return
        quoted = self.identifier_preparer.quote(name)
        hold(connection, Bound(f"SAVEPOINT {quoted}".encode(), kept=False))

    def do_release_savepoint(self, connection: Connection, name: str) -> None:
        """Release a savepoint, in the same way."""
        if not may_hold(driver_of(connection)):
            super().do_release_savepoint(connection, name)  # type: ignore[no-untyped-call]
            return
        quoted = self.identifier_preparer.quote(name)
        hold(connection, Bound(f"RELEASE SAVEPOINT {quoted}".encode(), kept=False))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Dialect)
            and self.server_version_info == other.server_version_info
        )

    def get_default_isolation_level(self, dbapi_conn: object) -> IsolationLevel:
        """What all our sessions begin with; SQLAlchemy would ask the server."""
        return "READ COMMITTED"

    def __hash__(self) -> int:
        # Without the version, which it does not know before it has met its server.
        return hash(Dialect)


class LastUsed(MutableMapping[Any, Kept]):
    """What was used last of many things, for several threads.

    Parameters:
        most: how many it keeps.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = RLock()
        self._kept: OrderedDict[Any, Kept] = OrderedDict()
        # A child would wait for ever for a thread that only its parent has.
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._lock.release,
        )

    def __getitem__(self, key: Any) -> Kept:
        with self._lock:
            found = self._kept[key]
            self._kept.move_to_end(key)
        return found

    def __setitem__(self, key: Any, one: Kept) -> None:
        with self._lock:
            self._kept[key] = one
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def __delitem__(self, key: Any) -> None:
        with self._lock:
            del self._kept[key]

    def __iter__(self) -> Iterator[Any]:
        with self._lock:
            return iter(list(self._kept))

    def __len__(self) -> int:
        return len(self._kept)


#: The compiled statements of this process.
COMPILED: LastUsed[Compiled] = LastUsed(MOST_COMPILED)

_built: LastUsed[Prepared] = LastUsed(MOST_COMPILED)


def built_once(what: Hashable, build: Callable[[], sa.ClauseElement]) -> Prepared:
    """A statement about tables of users, built when it is first asked for.

    Parameters:
        what: all that it depends on, the descriptions of tables among them.
        build: builds it, with a `bindparam` for each value that changes.
    """
    found = _built.get(what)
    if found is None:
        found = _built[what] = Prepared(build())
    return found


registry.register("postgresql.snaptide", __name__, Dialect.__name__)
