"""Deleting for good what was removed or overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from folders import tables
from sites import Site, faults
from sites.sessions import identity
from sites.sessions.exchange import raw

#: Entries that are cleaned in one transaction.
_TOGETHER = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanReport:
    """What was removed for good."""

    folder: str
    entries: int
    bytes: int


_CLEAN = (
    "WITH old AS (SELECT id FROM {entry} WHERE"
    " removed_at < now() - %s ORDER BY removed_at LIMIT %s FOR UPDATE SKIP LOCKED)"
    " DELETE FROM {entry} WHERE id IN (SELECT id FROM old) RETURNING size"
)


def clean(
    master: Site, name: str, *, older_than: timedelta = timedelta(days=30)
) -> CleanReport:
    """Delete what was removed or overwritten in a folder long ago, with its content.

    If a site that was away has renamed such a file meanwhile, its push changes nothing.
    What it has written anew arrives as another file.

    Parameters:
        master: where the folder was made: a site would have its deletions refused.
        name: the folder's name.
        older_than: how long ago it was removed, by the clock where that was done.

    Raises:
        UnknownFolder: the master has no such folder, or it is only a snapshot of one.
        NoFolderTable: its tables are not a folder's.
    """
    wanted = tables.named(name)
    sizes: list[int] = []
    while True:
        with identity.confirmed(master) as connection:
            tables.require(master, connection, wanted, made_here=True)
            found = raw(connection).execute(wanted.sql(_CLEAN), [older_than, _TOGETHER])
            now = [int(size) for (size,) in found.fetchall()]
            faults.point("folder_clean.before_commit")
        sizes += now
        if len(now) < _TOGETHER:
            return CleanReport(
                folder=str(wanted.folder), entries=len(sizes), bytes=sum(sizes)
            )
