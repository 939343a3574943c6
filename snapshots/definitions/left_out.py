"""Lists parts of a master table that a snapshot lacks, with reasons and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, text

from sites.sql import load
from sites.tables.indexes import Index
from sites.tables.table import ForeignKey, Table
from snapshots.definitions import parents, snapshot
from snapshots.definitions.snapshot import Snapshot

_LATER = "a row that it refuses is parked when it is pushed; to refuse it here, add"


def of_table(connection: Connection, table: Table) -> Iterator[str]:
    """Constraints and triggers that act only at the master."""
    rows = connection.execute(text(load("left_to_master")), {"oid": table.oid})
    for kind, name, its in rows:
        if kind == "trigger":
            yield (
                f"trigger {name}: fires only at the master, when a change is pushed; "
                f"the effects of {its} appear here after the next refresh. To use it "
                "here as well, create it on the base table, and make it act only if "
                "snaptide.comes_from() IS NULL, at both sites"
            )
        else:
            yield f"{kind} {name}: {_LATER} to the base table: {its}"


def of_keys(
    table: Table, chosen: Sequence[str], indexes: Sequence[Index]
) -> Iterator[str]:
    """Indexes and unique keys that the site does not build."""
    for index in indexes:
        if index.special:
            yield (
                f"index {index.name}: partial, or on an expression; if you need it "
                "here, create it on the base table"
            )
        elif missing := [c for c in index.columns if c not in chosen]:
            yield f"index {index.name}: the snapshot has no {', '.join(missing)}"
    for unique in table.uniques:
        if missing := [c for c in unique.columns if c not in chosen]:
            yield (
                f"unique key {unique.name}: the snapshot has no {', '.join(missing)}; "
                "the master finds duplicate values when a change is pushed"
            )


def references(connection: Connection, made: Snapshot, table: Table) -> Iterator[str]:
    """Foreign keys that the site lacks, given the snapshots it has now.

    Parameters:
        connection: to the site, where the snapshot is created.
        table: the master table.
    """
    there = snapshot.members(connection, made.refresh_group)
    group = {one.master: one for one in there} | {made.master: made}
    for key in table.foreign_keys:
        if why := _why_no_reference(key, made, group.get(key.parent)):
            yield f"foreign key {key.name} to {key.parent}: {why}"


def _why_no_reference(key: ForeignKey, made: Snapshot, parent: Snapshot | None) -> str:
    """Why a foreign key is not taken over; empty if it is."""
    meanwhile = "until then a row without a parent is parked when it is pushed"
    if missing := [c for c in key.columns if c not in made.columns]:
        return f"the snapshot has no {', '.join(missing)}"
    if not key.always:
        return "it is not validated for all rows at the master; validate it there"
    if parent is None:
        return (
            f"refresh group {made.refresh_group} has no snapshot of {key.parent} "
            f"here; create one, and the next refresh adds the key; {meanwhile}"
        )
    if not parents.follows(made, key, parent):
        return (
            f"snapshot {parent.key} has a condition, so rows may refer to parents "
            f"that are not here; let this one follow it (--follow "
            f"{', '.join(key.columns)}); {meanwhile}"
        )
    if parents.changes_read_only(key, made, parent):
        return (
            f"when users change {parent.key} it would change this snapshot, which is "
            "read-only; the next refresh shows what it did at the master"
        )
    if missing := [c for c in key.parent_columns if c not in parent.columns]:
        return f"snapshot {parent.key} has no {', '.join(missing)}"
    return ""
