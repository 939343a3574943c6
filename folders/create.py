"""Making a folder at a master: its tables, their logs and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import masters
from folders import tables
from folders.tables import Tables
from masters.rules import rulebook
from sites import Site, faults
from sites.sessions import identity
from sites.sessions.exchange import raw
from sites.tables import locks

#: The work of who creates a folder of some name.
CREATION = "snaptide.folder.create"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder, and the tables that sites take snapshots of."""

    site: str
    name: str
    entries: str
    chunks: str


def create(master: Site, name: str) -> Folder:
    """Make a folder: two tables with snapshot logs, and rules by which no file is lost.

    If sites give one path to two files, the later one becomes "report (jfk).odt"; of
    other changes of one entry, the first stays. Run it again if it was broken off.

    Parameters:
        master: where sites take snapshots of it.
        name: `name` or `schema.name`; the tables are `name_entry` and `name_chunk`.

    Raises:
        BadName: it cannot have that name.
        NoFolderTable: a table has one of these names, and is not a table of a folder.
    """
    made = tables.named(name)
    with identity.confirmed(master) as connection:
        locks.wait_turn(connection, CREATION, str(made.folder))
        if not tables.there(connection, made):
            for statement in tables.definitions(made):
                raw(connection).execute(statement)
        faults.point("folder_create.before_commit")
    for table in (made.entry, made.chunk):
        with suppress(masters.SnapshotLogExists):
            masters.create_snapshot_log(master, str(table))
        faults.point("folder_create.after_log")
    if not any(one.table == made.entry for one in masters.list_rules(master)):
        rulebook.apply(master, _rules(made), f"create folder {name}", keep_others=True)
    return Folder(
        site=master.name,
        name=str(made.folder),
        entries=str(made.entry),
        chunks=str(made.chunk),
    )


def _rules(made: Tables) -> Mapping[str, Any]:
    """What settles conflicts of a folder's entries."""
    path = {"column": "path", "of_file": True}
    unique = [
        {
            "constraint": made.path_key,
            "method": method,
            "parameters": path,
        }
        for method in ("append_site_name", "append_sequence")
    ]
    groups = {
        "place": ["path", "removed_at"],
        "look": ["mtime", "executable"],
    }
    update = [{"group": group, "method": "discard"} for group in groups]
    body = {
        "groups": groups,
        "update": update,
        "unique": unique,
        "delete": [{"method": "ignore"}],
    }
    return {"tables": {str(made.entry): body}}
