"""What our connections do besides what the driver and its pools do.

They read values that Python types cannot hold, as the nearest value that they can. Only
rows in conflict become Python values, and they still compare as they should.

A server that ends a session says so, and a reset tells the kernel: either can be seen
without a question to the server. Only a line that vanished silently looks as before; so
a connection that was idle for a while is tried, which costs a round trip.

A trigger or procedure of a user's may SET something for the rest of the session, not
only for the transaction in which Snaptide's statement fires it. Later transactions of
that session, and those of another task that gets it from the pool, would print values
in another form, or write rows without firing triggers or checking foreign keys. So a
commit ends all settings.

Sessions that nobody uses take places at the server. Pools close theirs only if none is
used; ours close those that are idle whenever others need the room. And they take files
of this process: one that refreshes a thousand sites would keep thousands of them open.
So the sites that were used last keep their sessions, and the others lose theirs.
"""

from __future__ import annotations

import re
import resource
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, time, timedelta
from selectors import EVENT_READ, DefaultSelector
from threading import Lock, RLock
from time import monotonic
from typing import Any, ClassVar, Self, cast

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format, PipelineStatus, TransactionStatus
from psycopg.types.datetime import IntervalLoader
from psycopg.types.json import JsonbDumper
from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from sites.sessions import exchange

#: Seconds of idling after which a firewall may have dropped the line without a word.
LONG = 10.0

_KEY = "snaptide.idle_since"
_OPENED = "snaptide.opened"

#: Set in the `info` of a session that keeps a table with types of users: nobody can
#: drop or alter these meanwhile, so it is closed as soon as it is idle.
HOLDS_TYPES = "snaptide.types_of_users"

#: How many sessions a site keeps between two pieces of work.
KEPT = 4

#: Seconds after which a session is replaced: no vacuum freezes its temporary tables, so
#: the server's transaction ids would run out in the end.
OLD = 3600

#: What a commit sends, after what is held. RESET ALL returns to what the session began
#: with, but leaves the role alone.
ENDING = ("COMMIT", "RESET ROLE", "RESET ALL")
_EACH = [exchange.Bound(one.encode(), kept=False) for one in ENDING]


class Idle:
    """The idle sessions of a site's pools."""

    def __init__(self) -> None:
        self._lock = RLock()
        #: each with when it was returned, the last one at last
        self._idle: dict[ConnectionPoolEntry, float] = {}
        self._closed_at = 0.0
        #: when a session was last taken, by the monotonic clock
        self.taken_at = 0.0

    def follow(self, engine: Engine) -> None:
        """Know from now on which sessions of a pool are idle."""
        event.listen(engine, "checkout", self._take)
        event.listen(engine, "checkin", self._give)
        event.listen(engine, "close", self._forget)

    def close(self) -> None:
        """Close them, and those that are in use when they are returned."""
        with self._lock:
            self._closed_at = monotonic()
            self.close_idle()

    def close_idle(self) -> None:
        """Close them, and leave alone those that are in use."""
        with self._lock:
            idle, self._idle = self._idle, {}
            for record in idle:
                record.invalidate()

    def keep_few(self, seconds: float) -> None:
        """Close those beyond the last few, if they have been idle for a while.

        Of the last few, too, those which are old or hold types of users.
        """
        with self._lock:
            now, most = monotonic(), len(self._idle) - KEPT
            for number, (record, since) in enumerate(list(self._idle.items())):
                old = now - record.info[_OPENED] > OLD or HOLDS_TYPES in record.info
                if now - since >= seconds and (number < most or old):
                    del self._idle[record]
                    record.invalidate()

    def _take(self, driver: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
        with self._lock:
            self.taken_at = monotonic()
            self._idle.pop(record, None)
            record.info.setdefault(_OPENED, self.taken_at)
            if driver.closed:
                raise DisconnectionError("The session was closed while it was idle.")

    def _give(self, driver: object, record: ConnectionPoolEntry) -> None:
        if driver is None:
            return  # it broke in use
        with self._lock:
            if record.info[_OPENED] < self._closed_at:
                record.invalidate()
            else:
                self._idle[record] = monotonic()
            count = len(self._idle)
        _ALL.note(self, count)

    def _forget(self, _driver: object, record: ConnectionPoolEntry) -> None:
        with self._lock:
            self._idle.pop(record, None)


def most() -> int:
    """How many idle sessions may stay open: half as many as the process's files."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


class OfAllSites:
    """How many sessions of a process are idle, by site; the one used last is last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: OrderedDict[Idle, int] = OrderedDict()

    def note(self, site: Idle, count: int) -> None:
        """Note that a site was used; close those of others if there are too many."""
        with self._lock:
            self._counts[site] = count
            self._counts.move_to_end(site)
            excess = sum(self._counts.values()) - most()
            closing: list[Idle] = []
            while excess > 0 and len(self._counts) > 1:
                one, had = self._counts.popitem(last=False)
                closing.append(one)
                excess -= had
        for one in closing:
            one.close_idle()


_ALL = OfAllSites()


def make_ours(engine: Engine, *, resets: bool) -> None:
    """Let a pool give out connections that do all this, and none that broke.

    Parameters:
        resets: whether a commit ends what users' triggers have set for the session.
            Such sessions keep statements prepared.
    """
    if resets:
        event.listen(engine, "do_connect", _connect)
    event.listen(engine, "connect", _read_distant_times)
    event.listen(engine, "checkin", _note)
    event.listen(engine, "checkout", _refuse)


def _note(_driver: object, record: Any) -> None:
    record.info[_KEY] = monotonic()


def is_alive(driver: psycopg.Connection[Any], since: float) -> bool:
    """Whether a connection that has been idle since a moment still works.

    Parameters:
        since: by the monotonic clock, in seconds.
    """
    if driver.closed or _has_heard(driver):
        return False
    return monotonic() - since < LONG or _answers(driver)


def _has_heard(driver: psycopg.Connection[Any]) -> bool:
    """Whether something has come that nobody asked for: the end of the session.

    Or a setting that was changed for the whole server, which is rare: a new session
    costs little then.
    """
    with DefaultSelector() as selector:
        selector.register(driver, EVENT_READ)
        return bool(selector.select(0))


def _answers(driver: psycopg.Connection[Any]) -> bool:
    autocommit = driver.autocommit
    try:
        driver.autocommit = True
        driver.execute("")
        driver.autocommit = autocommit
    except psycopg.Error:
        return False
    return True


def _refuse(driver: psycopg.Connection[Any], record: Any, _proxy: object) -> None:
    if not is_alive(driver, record.info.get(_KEY, monotonic())):
        raise DisconnectionError("The session broke while it was idle.")


class RestoringConnection(psycopg.Connection[Any]):
    """A connection whose sessions have their first settings after each commit.

    A rollback takes settings back by itself.
    """

    def cursor(self, *arguments: Any, **named: Any) -> Any:
        """A cursor, before whose statements those are run that the session holds."""
        exchange.send_held(self)
        return super().cursor(*arguments, **named)

    def commit(self) -> None:
        """Commit, and take back what the transaction has set for the session."""
        try:
            exchange.settle(self)
            if self.info.pipeline_status is not PipelineStatus.OFF:
                super().commit()
                return
            begun = self.info.transaction_status is TransactionStatus.INTRANS
            if not exchange.send_held(self, *_EACH, always=begun):
                super().commit()
        except psycopg.Error:
            # SQLAlchemy takes the transaction for ended, also if what was held failed.
            with suppress(psycopg.Error):
                self.rollback()
            raise

    def set_autocommit(self, value: bool) -> None:
        """Change it when what was sent is answered."""
        exchange.settle(self)
        super().set_autocommit(value)

    def rollback(self) -> None:
        """Roll back, and with it what prepared statements may name."""
        try:
            exchange.drop_held(self)
        finally:
            if self.info.transaction_status is not TransactionStatus.IDLE:
                exchange.forget(self)
            super().rollback()

    def tpc_prepare(self) -> None:
        """Prepare the transaction for a commit in two phases, with what is held."""
        exchange.send_held(self)
        super().tpc_prepare()

    def tpc_rollback(self, xid: psycopg.Xid | str | None = None) -> None:
        """Roll back as `rollback` does, or a transaction that is prepared."""
        try:
            exchange.drop_held(self)
        finally:
            exchange.forget(self)
            super().tpc_rollback(xid)

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """A transaction, or a savepoint in one, that ends with the block."""
        exchange.send_held(self)
        kept = False
        try:
            with super().transaction(savepoint_name, force_rollback) as found:
                yield found
                exchange.send_held(self)
                kept = not force_rollback
        finally:
            exchange.drop_held(self)
            if not (kept or self.closed):
                exchange.forget(self)


#: What makes objects that prepared statements name be others.
_VERBS = ("DROP", "ALTER", "ROLLBACK", "DISCARD", "DEALLOCATE")
_DROPS = re.compile(rf"\b(?:{'|'.join(_VERBS)})\b")


def _drops(statement: str) -> bool:
    said = statement.upper()
    # Looking for whole words takes ten times as long, and most have none of these.
    return any(verb in said for verb in _VERBS) and bool(_DROPS.search(said))


class ForgettingCursor(psycopg.Cursor[Any]):
    """A cursor whose session prepares again what a statement has made invalid."""

    def execute(self, query: Any, *arguments: Any, **named: Any) -> Self:
        """Run a statement."""
        found = super().execute(query, *arguments, **named)
        if _drops(self._text(query)):
            exchange.forget(self.connection)
        return found

    def _text(self, query: Any) -> str:
        if isinstance(query, bytes):
            return query.decode()
        return query if isinstance(query, str) else query.as_string(self)


def _connect(
    _dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]
) -> RestoringConnection:
    connect = cast("Callable[..., RestoringConnection]", RestoringConnection.connect)
    driver = connect(*arguments, **{**named, "cursor_factory": ForgettingCursor})
    # SQLAlchemy makes JSON of its own values, but not of those of an exchange.
    driver.adapters.register_dumper(dict, JsonbDumper)
    exchange.keep(driver)
    return driver


class _Clamped(Loader):
    """Loads a value with the driver, or as the nearest end of Python's range."""

    #: name of the type, and the ends of its Python type
    kind: ClassVar[str]
    ends: ClassVar[tuple[Any, Any]]

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        driver = psycopg.adapters.get_loader(
            psycopg.adapters.types[self.kind].oid, Format.TEXT
        )
        assert driver is not None
        # Called, not inherited: the driver's loader is of a compiled class.
        self._read: Callable[[Buffer], Any] = driver(oid, context).load

    def load(self, data: Buffer) -> Any:
        try:
            return self._read(data)
        except (psycopg.DataError, OverflowError):
            text = bytes(data)
            past = text.startswith(b"-") or text.endswith(b"BC")
            return self.ends[0] if past else self.ends[1]


class _Date(_Clamped):
    kind, ends = "date", (date.min, date.max)


class _Timestamp(_Clamped):
    kind, ends = "timestamp", (datetime.min, datetime.max)


class _Timestamptz(_Clamped):
    kind = "timestamptz"
    ends = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


class _Time(_Clamped):
    """Loads the time 24:00:00, too, as the last one of the day."""

    kind, ends = "time", (time.min, time.max)


class _Timetz(_Clamped):
    kind = "timetz"
    ends = (time.min.replace(tzinfo=UTC), time.max.replace(tzinfo=UTC))


class _Interval(_Clamped):
    kind, ends = "interval", (timedelta.min, timedelta.max)

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        # The compiled loader overflows silently.
        self._read = IntervalLoader(oid, context).load

    def load(self, data: Buffer) -> Any:
        text = bytes(data)
        if text.endswith(b"infinity"):  # psycopg reads it as an interval of zero
            return self.ends[0] if text.startswith(b"-") else self.ends[1]
        return super().load(data)


def _read_distant_times(driver: psycopg.Connection[Any], _record: object) -> None:
    """Let a connection read infinite and very distant times, and the end of a day."""
    for loader in (_Date, _Timestamp, _Timestamptz, _Time, _Timetz, _Interval):
        driver.adapters.register_loader(loader.kind, loader)
