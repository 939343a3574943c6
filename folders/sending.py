"""What a sync does in the folder's tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from psycopg.errors import DataError, UniqueViolation, WithCheckOptionViolation
from sqlalchemy import Connection

from folders import entries, scan
from folders.entries import MEANWHILE, Entry, MovedOn
from folders.scan import Found
from folders.work import Work, batches
from sites import faults

_What = TypeVar("_What")

_REFUSED = (UniqueViolation, WithCheckOptionViolation)

#: What is sent, as it was found, and the entry that it replaces, if there is one.
_Sent = tuple[Found, Entry | None]


def send_all(work: Work) -> None:
    """Do in the folder what the directory has changed."""
    made = work.plan
    _together(work, made.remove, _remove)
    _together(work, made.move, _move)
    for some in batches(made.send, lambda one: one[0].size):
        _together(work, some, _send)
    _together(work, made.touch_there, _touch)


def _together(
    work: Work,
    what: Mapping[str, _What],
    do: Callable[[Work, Connection, Mapping[str, _What]], Callable[[], None]],
) -> None:
    """Do something for several paths in one transaction; if that fails, one by one.

    Parameters:
        do: returns a function that notes what was done, to be called after the commit.
    """
    if not what:
        return
    try:
        with work.site.begin() as connection:
            note = do(work, connection, what)
            faults.point("folder_sync.before_commit")
    except (*_REFUSED, MovedOn, DataError, OSError) as error:
        if len(what) > 1:
            for path, one in what.items():
                _together(work, {path: one}, do)
            return
        [path] = what
        work.plan.left[path] = _reason(error)
        work.step(1)
    else:
        note()
        work.step(len(what))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror}"
    if isinstance(error, WithCheckOptionViolation):
        return "it does not lie in the part of the folder that the site has"
    if isinstance(error, DataError):
        return "the database cannot hold its name"
    return MEANWHILE


def _remove(
    work: Work, connection: Connection, gone: Mapping[str, Entry]
) -> Callable[[], None]:
    entries.remove(connection, work.tables, [*gone.values()])

    def note() -> None:
        for path in gone:
            work.state.known.pop(path, None)
        work.report.removed_there += len(gone)

    return note


def _move(
    work: Work, connection: Connection, moved: Mapping[str, tuple[Entry, Found]]
) -> Callable[[], None]:
    both = [(entry, path) for path, (entry, _) in moved.items()]
    entries.move(connection, work.tables, both)
    now = {
        path: (found, replace(entry, path=path))
        for path, (entry, found) in moved.items()
    }
    changed = {
        path: one for path, one in now.items() if one[1] != _like(one[0], one[1])
    }
    touched = _touch(work, connection, changed)

    def note() -> None:
        for entry, path in both:
            work.state.known.pop(entry.path, None)
            work.note(path, *now[path])
        touched()
        work.report.renamed += len(moved)

    return note


def _touch(
    work: Work, connection: Connection, touched: Mapping[str, tuple[Found, Entry]]
) -> Callable[[], None]:
    now = {path: _like(found, entry) for path, (found, entry) in touched.items()}
    for entry in now.values():
        entries.touch(connection, work.tables, entry)

    def note() -> None:
        for path, (found, _) in touched.items():
            work.note(path, found, now[path])

    return note


def _send(
    work: Work, connection: Connection, sent: Mapping[str, _Sent]
) -> Callable[[], None]:
    new = {path: _new(path, found) for path, (found, _) in sent.items()}
    replaced = [entry for _, entry in sent.values() if entry is not None]
    entries.remove(connection, work.tables, replaced)
    added = [
        (new[path], scan.pieces(work.directory / path) if one.kind == "file" else ())
        for path, (one, _) in sent.items()
    ]
    entries.add(connection, work.tables, added)
    for path, (found, _) in sent.items():
        if not scan.is_as_found(work.directory / path, found):
            raise MovedOn(MEANWHILE)

    def note() -> None:
        for path, (found, _) in sent.items():
            work.note(path, found, new[path])
            work.report.sent += found.kind == "file"
            work.report.sent_bytes += found.size

    return note


def _new(path: str, found: Found) -> Entry:
    return Entry(
        id=uuid.uuid4(),
        path=path,
        kind="file" if found.kind == "file" else "folder",
        size=found.size,
        mtime=_time(found),
        sha256=bytes.fromhex(found.sha256) or None,
        executable=found.executable,
    )


def _like(found: Found, entry: Entry) -> Entry:
    """An entry with the time of a file, executable if that is."""
    return replace(entry, mtime=_time(found), executable=found.executable)


def _time(found: Found) -> datetime:
    since = timedelta(microseconds=found.mtime_ns // 1000)
    return datetime(1970, 1, 1, tzinfo=UTC) + since
