"""What a sync does in the directory."""

from __future__ import annotations

from sqlalchemy import Connection

from folders import entries, here
from folders.entries import MEANWHILE, Entry
from folders.here import InTheWay
from folders.scan import Found, is_as_found, seen
from folders.work import Work
from sites.sessions.site import autocommit


def fetch_all(work: Work) -> None:
    """Do in the directory what the folder has changed, and keep what both have."""
    made = work.plan
    for path, (found, entry) in made.equal.items():
        work.note(path, found, entry)
    for path in made.gone:
        work.state.known.pop(path, None)
    with work.site.connect() as connection, autocommit(connection):

        def fetch(work: Work, path: str, entry: Entry) -> None:
            _write(work, connection, path, entry, made.replaced.get(path))

        def keep_both(work: Work, path: str, both: tuple[Found, Entry]) -> None:
            _keep_both(work, connection, path, *both)

        work.each(made.conflict, keep_both)
        work.each(made.rename, _rename)
        work.each(made.delete, _delete)
        work.each(made.fetch, fetch)
    work.each(made.touch_here, _touch)


def _write(
    work: Work, connection: Connection, path: str, entry: Entry, before: Found | None
) -> None:
    content = entries.content(connection, work.tables, entry.id)
    here.write(work.directory, entry, before, content)
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
    work.plan.send[name] = (found, None)
    _write(work, connection, path, entry, None)


def _rename(work: Work, path: str, before: tuple[str, Found, Entry]) -> None:
    old, found, entry = before
    here.rename(work.directory, old, found, path, entry)
    _forget(work, old)
    _note(work, path, entry)
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
    _note(work, path, entry)


def _forget(work: Work, path: str) -> None:
    """Forget a path that is gone, with the folders that only it kept."""
    here.prune(work.directory, path, work.plan.folders)
    work.state.known.pop(path, None)


def _note(work: Work, path: str, entry: Entry) -> None:
    work.note(path, seen((work.directory / path).lstat()), entry)
