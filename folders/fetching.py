"""What a sync does in the directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace

from sqlalchemy import Connection

from folders import entries, here
from folders.entries import MEANWHILE, Entry
from folders.here import InTheWay
from folders.scan import Found, is_as_found, parents, seen
from folders.tables import PIECE
from folders.work import Work, batches
from sites.sessions.site import autocommit

#: Threads that write files: most of the time of each is the system's.
_WRITERS = min(4, os.cpu_count() or 1)


def fetch_all(work: Work) -> None:
    """Do in the directory what the folder has changed, and keep what both have."""
    made = work.plan
    for path, (found, entry) in made.equal.items():
        work.note(path, found, entry)
    for path in made.gone:
        work.state.known.pop(path, None)
    with work.site.connect() as connection, autocommit(connection):

        def keep_both(work: Work, path: str, both: tuple[Found, Entry]) -> None:
            _keep_both(work, connection, path, *both)

        work.each(made.conflict, keep_both)
        work.each(made.rename, _rename)
        work.each(made.delete, _delete)
        for some in batches(made.fetch, lambda entry: entry.size):
            _fetch(work, connection, some)
    work.each(made.touch_here, _touch)


def _fetch(work: Work, connection: Connection, wanted: Mapping[str, Entry]) -> None:
    found = entries.contents(connection, work.tables, [*wanted.values()])
    begun = dict[str, Future[None]]()

    def end(work: Work, path: str, writing: Future[None]) -> None:
        writing.result()
        _written(work, path, wanted[path])

    with closing(found), ThreadPoolExecutor(_WRITERS) as writers:
        for path, entry in wanted.items():
            # Of a file and one below its name, the first stays, whichever is faster.
            if not begun.keys().isdisjoint(parents(path)):
                wait(begun.values())
            begun[path] = _begin(work, writers, path, entry, next(found))
        work.each(begun, end)


def _begin(
    work: Work,
    writers: ThreadPoolExecutor,
    path: str,
    entry: Entry,
    content: Iterable[bytes],
) -> Future[None]:
    """Write a file: a small one by another thread, a large one piece by piece."""
    before = work.plan.replaced.get(path)
    if entry.kind == "file" and entry.size <= PIECE:
        whole = [*content]
        return writers.submit(here.write, work.directory, entry, before, whole)
    done = Future[None]()
    try:
        here.write(work.directory, entry, before, content)
        done.set_result(None)
    except (InTheWay, OSError) as error:
        done.set_exception(error)
    return done


def _written(work: Work, path: str, entry: Entry) -> None:
    _note(work, path, entry)
    if entry.kind == "file":
        work.report.fetched += 1
        work.report.fetched_bytes += entry.size


def _keep_both(
    work: Work, connection: Connection, path: str, found: Found, entry: Entry
) -> None:
    name = here.free_name(work.directory, path, work.site.name)
    here.rename(work.directory, path, found, name)
    work.report.conflicts.append(name)
    renamed = (work.directory / name).lstat().st_ctime_ns
    work.plan.send[name] = (replace(found, ctime_ns=renamed), None)
    with closing(entries.contents(connection, work.tables, [entry])) as content:
        here.write(work.directory, entry, None, next(content))
    _written(work, path, entry)


def _rename(work: Work, path: str, before: tuple[str, Found, Entry]) -> None:
    old, found, entry = before
    here.rename(work.directory, old, found, path, entry)
    _forget(work, old)
    _note(work, path, entry, found)
    work.report.renamed += 1


def _delete(work: Work, path: str, found: Found) -> None:
    here.delete(work.directory, path, found)
    _forget(work, path)
    work.report.removed_here += 1


def _touch(work: Work, path: str, both: tuple[Found, Entry]) -> None:
    found, entry = both
    if not is_as_found(work.directory / path, found):
        raise InTheWay(MEANWHILE)
    here.touch(work.directory, path, entry)
    _note(work, path, entry, found)


def _forget(work: Work, path: str) -> None:
    """Forget a path that is gone, with the folders that only it kept."""
    here.prune(work.directory, path, work.plan.folders)
    work.state.known.pop(path, None)


def _note(work: Work, path: str, entry: Entry, before: Found | None = None) -> None:
    """Note that a path is in step now.

    Another program may have written the file after it was looked at, or put another one
    in its place. If that could be so, the next sync reads it again.

    Parameters:
        before: the file as it was found, whose time may have been set now.
    """
    now = seen((work.directory / path).lstat())
    has_been = [one for one in (before, now) if one is not None]
    unwritten = all(
        (one.size, one.mtime_ns // 1000) == (entry.size, entry.time_us)
        for one in has_been
    )
    if entry.kind == "file" and not unwritten:
        now = replace(now, ctime_ns=-1)
    work.note(path, now, entry)
