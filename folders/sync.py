"""Bringing a directory and a folder into step, without losing what either side has."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path

import snapshots
from folders import entries, here, scan, state, tables
from folders.errors import MassRemoval, UnknownFolder
from folders.fetching import fetch_all
from folders.plan import Plan, plan
from folders.sending import send_all
from folders.state import State
from folders.tables import Tables
from folders.work import SyncReport, Work
from sites import Progress, Site, faults
from sites.sessions import identity

#: Removing so few files, or so small a share of them, is not a mass removal.
_FEW, _SHARE = 30, 0.3


def sync(
    site: Site,
    name: str,
    directory: Path,
    *,
    allow_mass_delete: bool = False,
    progress: Progress | None = None,
) -> SyncReport:
    """Bring a directory and a folder into step.

    What one side has changed since the last sync is done at the other. A change beats a
    removal. If both sides have changed a file, the directory's is kept as "report
    (conflict jfk).odt", beside the folder's. What cannot be in step is listed and left
    alone on both sides. (Virtuoso: a DAV collection as a published item.)

    Only the site's own database is used: pushes and refreshes carry the rest.

    Parameters:
        site: a master, or a site with updatable snapshots of the folder's tables.
        name: the folder's name.
        directory: a directory that belongs to this folder of this site alone.
        allow_mass_delete: remove also an unusually large share of the files.
        progress: receives how far it has come.

    Raises:
        UnknownFolder: the site has no such folder, or its snapshots are not loaded yet
            or not updatable.
        NoFolderTable: its tables are not a folder's.
        DirectoryRefused: the directory cannot be used, or belongs to another folder.
        DirectoryBusy: another sync of it is running.
        MassRemoval: more would be removed than is usual.
        StateNotSaved: what was done could not be noted in the directory.
    """
    wanted = tables.named(name)
    with identity.confirmed(site) as connection:
        tables.require(site, connection, wanted)
        database = identity.read(connection)
    refuse_unloaded(site, wanted)
    of = {
        "site": site.name,
        "database": str(database.site_id),
        "incarnation": str(database.incarnation),
        "folder": str(wanted.folder),
    }
    with state.alone(directory):
        known = state.load(directory, of)
        seen = scan.scan(directory, known, progress)
        here.remove_unfinished(seen.unfinished)
        scan.distrust_changed(known, seen)
        before = dict(known.known)
        with site.begin() as connection:
            there = {one.path: one for one in entries.read(connection, wanted)}
        made = plan(known.known, seen, there)
        if not allow_mass_delete:
            _refuse_mass(made, known)
        work = Work(
            site=site,
            tables=wanted,
            directory=directory,
            state=known,
            plan=made,
            report=SyncReport(
                site=site.name, folder=str(wanted.folder), directory=str(directory)
            ),
            step=_counter(made, progress),
        )
        try:
            fetch_all(work)
            faults.point("folder_sync.after_fetch")
            send_all(work)
        finally:
            known.scanned_ns = seen.began_ns
            state.save(directory, known, changed=known.known != before)
        work.report.left = scan.listed(made.left)
        return work.report


def refuse_unloaded(site: Site, wanted: Tables) -> None:
    """Refuse snapshots that show nothing yet, which would look like removed files.

    Raises:
        UnknownFolder.
    """
    names = {str(wanted.entry), str(wanted.chunk)}
    for one in snapshots.list_snapshots(site):
        if one.name in names and not (one.loaded and one.updatable):
            what = "updatable" if one.loaded else "loaded yet: refresh its group first"
            raise UnknownFolder(f"Snapshot {one.name} of {site.name} is not {what}.")


def _refuse_mass(made: Plan, known: State) -> None:
    for what, gone in (("the folder", made.remove), ("the directory", made.delete)):
        if len(gone) > max(_FEW, _SHARE * len(known.known)):
            raise MassRemoval(
                f"{len(gone)} of {len(known.known)} files would be removed from {what}."
            )


def _counter(made: Plan, progress: Progress | None) -> Callable[[int], None]:
    parts: tuple[Sized, ...] = (
        *(made.fetch, made.delete, made.rename, made.touch_here, made.conflict),
        *(made.send, made.remove, made.move, made.touch_there, made.conflict),
    )
    total, done = sum(map(len, parts)), 0

    def step(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total, "files brought into step")

    return step
