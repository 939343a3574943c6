"""Syncing a directory whenever something in it has changed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from folders.errors import DirectoryBusy, DirectoryRefused
from folders.paths import OURS
from folders.sync import sync
from folders.work import SyncReport
from sites import Progress, Site
from sites.extras import require

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

#: A sync waits until nothing has changed for so many seconds; so many times at most.
_QUIET, _PATIENCE = 0.5, 20

#: The events that change something; files that are only opened or read are no matter.
_CHANGES = frozenset({"created", "modified", "moved", "deleted", "closed"})


def watch(
    site: Site,
    name: str,
    directory: Path,
    *,
    every: timedelta = timedelta(seconds=30),
    progress: Progress | None = None,
) -> Generator[SyncReport, None, None]:
    """Sync now, and again and again: when the directory changes, and from time to time.

    Parameters:
        site, name, directory, progress: as for `sync`.
        every: how long it waits at most, so that it sees what the folder has changed.

    Returns:
        The reports of the syncs; take the next one to go on.

    Raises:
        DirectoryRefused: the system cannot watch the directory, or as `sync` raises it.
        UnknownFolder, NoFolderTable, MassRemoval: as `sync` raises them.
        MissingExtra: watchdog is not installed.
    """
    require("folders")
    changed = Event()
    with _watched(directory, changed):
        while True:
            changed.clear()
            # Another sync that runs does the same; what it misses comes next time.
            with suppress(DirectoryBusy):
                yield sync(site, name, directory, progress=progress)
            changed.wait(every.total_seconds())
            for _ in range(_PATIENCE):
                changed.clear()
                if not changed.wait(_QUIET):
                    break


@contextmanager
def _watched(directory: Path, changed: Event) -> Iterator[None]:
    """Set an event whenever something of others changes in a directory."""
    from watchdog.events import FileSystemEventHandler
    from watchdog.observers import Observer

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            # A folder is modified by what happens in it, which has its own event.
            within = event.is_directory and event.event_type == "modified"
            ours = Path(str(event.src_path)).name.startswith(OURS)
            if event.event_type in _CHANGES and not within and not ours:
                changed.set()

    observer = Observer()
    try:
        observer.schedule(Handler(), str(directory), recursive=True)
        observer.start()
    except OSError as error:
        raise DirectoryRefused(
            f"{directory} cannot be watched: {error.strerror}."
        ) from None
    try:
        yield
    finally:
        observer.stop()
        observer.join()
