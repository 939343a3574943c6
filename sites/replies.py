"""What a command and the worker that does its work say to each other.

They meet in the site's database, which both reach, and leave nothing there: the worker
notifies a channel with the name of the request, and two advisory locks say who is
alive. A command holds the first lock while it waits, and a worker the second while it
works. So a worker leaves alone what no command waits for any more, the work is not done
by both, and a command sees that a worker died as soon as the server has ended its
session.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import psycopg
from psycopg import errors, sql
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sites.errors import SnaptideError
from sites.progress import Progress
from sites.sessions.exchange import raw
from sites.sessions.site import Site, autocommit
from snaptide_imports import PACKAGES

#: First halves of the advisory locks of one that waits and of one that works; the
#: request gives the other half.
_WAITS, _WORKS = 0x57414954, 0x574F524B

#: Seconds between two messages on how far the work is.
PACE = 0.1

#: Seconds that a command waits for a worker to begin.
PATIENCE = 5.0

#: Seconds between two looks whether the worker is still there.
LOOK = 1.0

#: A notification has room for 8,000 bytes; what is longer comes in several.
ROOM = 7_000

#: What messages hold.
BEGUN, PROGRESS, REPORT, ERROR = "begun", "progress", "report", "error"


class NotBegun(Exception):
    """No worker has begun the work; the command may do it itself."""


class WorkerLost(Exception):
    """The worker ended before the work did; the command may do it itself."""


class NotWaitedFor(Exception):
    """No command waits for the work any more, or another one does it already."""


class Reply:
    """What a worker says to the command that waits for its work.

    Parameters:
        connection: holds the lock of the work; None if no command waits.
    """

    def __init__(self, connection: Connection | None, request: str) -> None:
        self._connection = connection
        self._request = request
        self._next = 0.0

    def progress(self, done: int, total: int | None, unit: str) -> None:
        """Say how far the work is, at most ten times a second."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PACE
            self.say(PROGRESS, [done, total, unit])

    def say(self, kind: str, what: object) -> None:
        """Send a message; if the site refuses it, send no more.

        The work goes on all the same: losing the session ends the lock, too, which
        tells the command that nothing more will come.
        """
        if self._connection is None:
            return
        try:
            # ASCII, which is the same in each encoding of a database.
            for part in _cut(json.dumps({kind: what})):
                self._connection.execute(
                    select(func.pg_notify(_channel(self._request), part))
                )
        except SQLAlchemyError:
            self._connection = None


@contextmanager
def replying(site: Site, request: str | None) -> Iterator[Reply]:
    """Do the work of a request in the block, and tell how it ends if it fails.

    Parameters:
        site: where the command waits.
        request: its name; None if no command waits for this work.

    Raises:
        NotWaitedFor: the command is gone, or does the work itself.
        SiteUnreachable: the site does not answer.
        the errors of the block.
    """
    if request is None:
        yield Reply(None, "")
        return
    request = str(uuid.UUID(request))
    with (
        site.session() as connection,
        autocommit(connection),
        _working(connection, request),
    ):
        reply = Reply(connection, request)
        reply.say(BEGUN, True)
        try:
            yield reply
        except Exception as error:
            reply.say(ERROR, _described(error))
            raise


class Request:
    """Work that a command has asked for, while it waits.

    Parameters:
        connection: a session of the command's own, in autocommit.
    """

    def __init__(self, connection: Connection) -> None:
        self.name = str(uuid.uuid4())
        #: whether a worker has said that it works
        self.begun = False
        self._connection = connection
        self._driver = raw(connection)
        self._parts = _Parts()
        listen = sql.SQL("LISTEN {}").format(sql.Identifier(_channel(self.name)))
        self._driver.execute(listen)
        connection.execute(select(func.pg_advisory_lock(*_lock(_WAITS, self.name))))

    def answer(self, progress: Progress | None) -> Any:
        """Wait until the work is done, and return the report, as `Reply.say` got it.

        Parameters:
            progress: is told how far the work is.

        Raises:
            NotBegun: no worker began in time, and none will.
            WorkerLost: the worker is gone; no other one will begin.
            the error that the worker met.
        """
        deadline = time.monotonic() + PATIENCE
        while (done := self._hear(progress)) is None:
            patient = not self.begun and time.monotonic() < deadline
            if not patient and _take_over(self._connection, self.name):
                # The last word of a worker may have come just before it let go.
                if (done := self._hear(progress)) is None:
                    raise WorkerLost if self.begun else NotBegun
                break
        return done[REPORT]

    def _hear(self, progress: Progress | None) -> Mapping[str, Any] | None:
        """Take what comes within `LOOK` seconds; returns the message with the report.

        Raises:
            the error that the worker met.
        """
        for message in self._messages(LOOK):
            self.begun = True
            if REPORT in message:
                return message
            if ERROR in message:
                raise _raised(message[ERROR])
            if PROGRESS in message and progress is not None:
                progress(*message[PROGRESS])
        return None

    def _messages(self, seconds: float) -> Iterator[Mapping[str, Any]]:
        for told in self._driver.notifies(timeout=seconds):
            if (message := self._parts.add(told.payload)) is not None:
                yield message


@contextmanager
def requesting(site: Site) -> Iterator[Request]:
    """Wait for a worker's answers while the block runs.

    Raises:
        SiteUnreachable: the site does not answer.
    """
    with site.session() as connection, autocommit(connection):
        try:
            yield Request(connection)
        finally:
            with suppress(SQLAlchemyError):
                connection.exec_driver_sql("UNLISTEN *")
                connection.execute(select(func.pg_advisory_unlock_all()))


def _channel(request: str) -> str:
    return f"snaptide_{uuid.UUID(request).hex}"


def _take_over(connection: Connection, request: str) -> bool:
    """Become the one that does the work, if nobody does it."""
    lock = func.pg_try_advisory_lock(*_lock(_WORKS, request))
    return bool(connection.scalar(select(lock)))


@contextmanager
def _working(connection: Connection, request: str) -> Iterator[None]:
    """Hold the lock of the work.

    Raises:
        NotWaitedFor: the command is gone, or has the lock.
    """
    waits, works = _lock(_WAITS, request), _lock(_WORKS, request)
    if not _take_over(connection, request):
        raise NotWaitedFor
    try:
        if connection.scalar(select(func.pg_try_advisory_lock(*waits))):
            connection.execute(select(func.pg_advisory_unlock(*waits)))
            raise NotWaitedFor
        yield
    finally:
        # If the session is lost, the lock is, too.
        with suppress(SQLAlchemyError):
            connection.execute(select(func.pg_advisory_unlock(*works)))


def _lock(space: int, request: str) -> tuple[Any, Any]:
    return space, func.hashtext(request)


def _cut(text: str) -> Iterator[str]:
    """A message in parts that fit; the first character says whether more follow."""
    for at in range(0, len(text), ROOM):
        more = at + ROOM < len(text)
        yield f"{'+' if more else '.'}{text[at : at + ROOM]}"


class _Parts:
    """Puts the parts of messages together again."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, part: str) -> Mapping[str, Any] | None:
        """Add a part; returns the message, by its kind, if this was the last."""
        self._parts.append(part[1:])
        if part.startswith("+"):
            return None
        text = "".join(self._parts)
        self._parts.clear()
        found: Mapping[str, Any] = json.loads(text)
        return found


def _described(error: Exception) -> dict[str, object]:
    """An error, so that `_raised` can make one that reads the same."""
    if isinstance(error, SnaptideError):
        kind = type(error)
        why = error.__cause__
        return {
            "module": kind.__module__,
            "name": kind.__name__,
            "message": error.message,
            "facts": json.loads(json.dumps(error.facts, default=_plain)),
            "why": None if why is None else str(why) or type(why).__name__,
        }
    cause = error.orig if isinstance(error, DBAPIError) else error
    said: dict[str, object] = {"name": type(error).__name__, "message": str(cause)}
    if isinstance(cause, psycopg.Error):
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        said["sqlstate"] = None if lost else cause.sqlstate
    return said


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _raised(said: Mapping[str, Any]) -> Exception:
    """An error like the one that was described."""
    if "module" in said:
        made = _kind(said["module"], said["name"])(said["message"], **said["facts"])
        made.__cause__ = None if said["why"] is None else Exception(said["why"])
        return made
    if "sqlstate" in said:
        return _of_database(said["sqlstate"])(said["message"])
    unknown: type[Exception] = type(said["name"], (Exception,), {})
    return unknown(said["message"])


def _kind(module: str, name: str) -> type[SnaptideError]:
    """The class of an error of ours; that of all of them if it is not known here."""
    if module.partition(".")[0] in PACKAGES:
        with suppress(ImportError):
            kind = getattr(import_module(module), name, None)
            if isinstance(kind, type) and issubclass(kind, SnaptideError):
                return kind
    return SnaptideError


def _of_database(sqlstate: str | None) -> type[psycopg.Error]:
    try:
        return errors.lookup(sqlstate) if sqlstate else psycopg.OperationalError
    except KeyError:
        return psycopg.DatabaseError
