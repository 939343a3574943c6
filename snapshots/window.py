"""Finds the keys that a refresh has to look at, at one moment of the master.

At that moment it reads the master's position, how far this site's queue has been
answered (the marker), and the logs since the group's position. Only then does it
read the site's own log: a change of the site that the marker does not cover is
pending, whatever happens to it meanwhile (docs/explanation/held-back.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Select, TableClause, select
from sqlalchemy.sql.selectable import FromClause

from deferred.batches import marker
from deferred.batches.marker import Marker
from masters import group_schema
from masters.group_schema import SchemaVersion
from masters.log.catalog import find_log, reaches_back_to
from sites import identity, position, ranges
from sites.catalog import SCHEMA
from sites.identity import Identity
from sites.names import QualifiedName
from sites.ranges import Leaf, Range
from sites.table import Table, describe
from sites.types import Xid8
from snapshots import fitting, rewrites, shared
from snapshots.errors import (
    ColumnGone,
    MasterChanged,
    NoSnapshotLog,
    RowsHidden,
    SnapshotLogTooYoung,
)
from snapshots.refresh_group import RefreshGroup
from snapshots.snapshot import Snapshot, carried, key_types

LOAD, FAST, COMPLETE = "load", "fast", "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One snapshot of the group, as this refresh will treat it."""

    snapshot: Snapshot
    base: Table
    master: Table
    log_table: str | None
    #: load, fast or complete
    method: str
    #: the tables that hold the master's rows now, by oid
    parts: Mapping[int, Leaf]
    #: the schema version of the master table's replication group; None without one
    schema_version: SchemaVersion | None = None

    @property
    def joined(self) -> tuple[QualifiedName, ...]:
        """Tables that were added since the last refresh, perhaps with rows in them."""
        before = self.snapshot.master_parts
        new = () if before is None else self.parts.keys() - set(before)
        return tuple(self.parts[oid].name for oid in sorted(new))

    @property
    def files(self) -> dict[int, int]:
        """The files of these tables."""
        return {oid: leaf.file for oid, leaf in self.parts.items()}

    @property
    def states(self) -> dict[str, str]:
        """The state of each column of the master table, by name."""
        return {column.name: column.state for column in self.master.columns}

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns whose values are compared and written."""
        return carried(self.snapshot, self.base)

    def log(self) -> TableClause:
        """The master's snapshot log, for use in statements."""
        assert self.log_table is not None
        keys: list[sa.ColumnClause[Any]] = [
            sa.column(name, kind)
            for name, kind in zip(
                self.snapshot.key_names,
                key_types(self.master, self.snapshot),
                strict=True,
            )
        ]
        return sa.table(
            self.log_table,
            sa.column("kind", sa.Text),
            sa.column("xid", Xid8()),
            *keys,
            schema=SCHEMA,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A moment of the master, and the stretch of its logs that leads there."""

    position: str
    since: str | None
    master: Identity
    marker: Marker
    members: tuple[Member, ...]


def read(
    master: Connection,
    site: Connection,
    who: Identity,
    group: RefreshGroup,
    snapshots: Sequence[Snapshot],
    methods: Mapping[str, str],
    known: Collection[str],
) -> Window:
    """Read the window of a group.

    Parameters:
        master: in a REPEATABLE READ transaction, whose moment the group will show.
        site: used only to describe the base tables.
        methods: the character asked for, by name of snapshot; `?` for the others.
        known: snapshots that were registered at the master all the time.

    Raises:
        MasterChanged: the database is not the one that the position belongs to.
        NoSnapshotLog, SnapshotLogTooYoung: a fast refresh is asked and not possible.
        ColumnGone, RowsHidden: a table has changed since the snapshot was created.
        MasterBehind, ColumnChanged: after DDL, the master table does not fit.
    """
    here = position.current(master)
    complete = all(methods.get(s.key) == "c" for s in snapshots)
    them = _confirm(master, group, here, complete=complete)
    if group.incarnation not in (None, them.incarnation):
        # The master was restored and repaired: positions from before mean nothing.
        known = ()
    versions = group_schema.versions(master)
    members = [
        _member(
            master,
            site,
            group,
            s,
            methods.get(s.key, "?"),
            s.key in known,
            versions.get(s.master),
        )
        for s in snapshots
    ]
    return Window(
        position=here,
        since=group.position,
        master=them,
        marker=marker.read(master, who.site_id),
        members=tuple(members),
    )


def changed_keys(member: Member, since: str) -> Select[Any]:
    """Keys (k1, k2, ...) of rows that changed at the master since a position.

    All rows of a table that was attached since are among them: they may have been
    there before, and no trigger recorded them.
    """
    log = member.log()
    keys = [log.c[name] for name in member.snapshot.key_names]
    logged = select(*keys).where(position.since(log.c.xid, since), log.c.kind != "T")
    if not member.joined:
        return logged.distinct()
    there = map(partial(_keys_in, member), member.joined)
    return select(*sa.union(logged, *there).subquery().c)


def _keys_in(member: Member, part: QualifiedName) -> Select[Any]:
    kinds = key_types(member.master, member.snapshot)
    names = member.snapshot.identity_columns
    columns = [sa.column(c, kind) for c, kind in zip(names, kinds, strict=True)]
    table = sa.table(part.name, *columns, schema=part.schema)
    keys = zip(table.c, member.snapshot.key_names, strict=True)
    query = select(*(column.label(key) for column, key in keys))
    return Range(table=part).restrict(query, table)


def site_keys(snapshot: Snapshot) -> Select[Any]:
    """Keys that the refresh must look at again because of the site's own log."""
    view: FromClause = sa.table(
        snapshot.log_view, *map(sa.column, snapshot.key_names), schema=SCHEMA
    )
    return select(*(view.c[name] for name in snapshot.key_names)).distinct()


def _confirm(
    master: Connection, group: RefreshGroup, here: str, *, complete: bool
) -> Identity:
    them = identity.confirm(master, group.master)
    if them.site_id != group.master_id:
        raise MasterChanged(
            f"Site name {group.master} leads to another site now.", group=group.name
        )
    if group.incarnation not in (None, them.incarnation):
        return them
    if (
        group.position is not None
        and not complete
        and position.end(here) < position.end(group.position)
    ):
        raise MasterChanged(
            f"Site {group.master} is older than the state that group {group.name} "
            "shows.",
            group=group.name,
        )
    return them


def _member(
    master: Connection,
    site: Connection,
    group: RefreshGroup,
    snapshot: Snapshot,
    asked: str,
    registered: bool,
    schema_version: SchemaVersion | None,
) -> Member:
    log = find_log(master, snapshot.master)
    table, base = describe(master, snapshot.master), describe(site, snapshot.base)
    for one in (table, base):
        _refuse_altered(one, snapshot)
    _refuse_displaced(base, snapshot)
    shared.refuse_other(snapshot, table, base, group.master, schema_version)
    fitting.refuse_lossy(snapshot, table, base)
    rewrites.refuse_generated_otherwise(snapshot, table, base)
    parts = ranges.leaves(master, snapshot.master)
    kept = registered and set(snapshot.master_parts or ()) <= parts.keys()
    member = Member(
        snapshot=snapshot,
        base=base,
        master=table,
        log_table=None if log is None else log.log_table,
        method=_method(master, group, snapshot, asked.lower(), log, kept),
        parts=parts,
        schema_version=schema_version,
    )
    if member.method == FAST and rewrites.why_rewritten(
        snapshot, member.states, member.files
    ):
        return replace(member, method=COMPLETE)
    return member


def _refuse_altered(table: Table, snapshot: Snapshot) -> None:
    gone = [name for name in snapshot.columns if name not in table.names]
    if gone:
        raise ColumnGone(
            f"{table.qualified} no longer has the column {', '.join(gone)}.",
            snapshot=snapshot.key,
            columns=gone,
        )
    if table.hides_rows:
        raise RowsHidden(
            f"Row-level security hides rows of {table.qualified} from Snaptide's user.",
            snapshot=snapshot.key,
        )


def _refuse_displaced(base: Table, snapshot: Snapshot) -> None:
    others = rewrites.displaced(snapshot, {c.name: c.state for c in base.columns})
    if others:
        raise ColumnGone(
            f"{base.qualified} now has other columns that are called "
            f"{', '.join(others)}.",
            snapshot=snapshot.key,
            columns=others,
        )


def _method(
    master: Connection,
    group: RefreshGroup,
    snapshot: Snapshot,
    asked: str,
    log: Row[Any] | None,
    kept: bool,
) -> str:
    if not snapshot.loaded or group.position is None:
        return LOAD
    if asked == "c":
        return COMPLETE
    if log is None:
        if asked == "f":
            raise NoSnapshotLog(
                f"{snapshot.master} has no snapshot log: {snapshot.key} cannot be "
                "refreshed fast."
            )
        return COMPLETE
    reaches = kept and reaches_back_to(master, log, group.position)
    if not reaches:
        if asked == "f":
            raise SnapshotLogTooYoung(
                f"The snapshot log of {snapshot.master} does not hold all changes "
                f"since the last refresh of {snapshot.key}.",
                snapshot=snapshot.key,
            )
        return COMPLETE
    return COMPLETE if _truncated(master, log.log_table, group.position) else FAST


def _truncated(master: Connection, log_table: str, since: str) -> bool:
    """Whether the master table was truncated: no log could hold all its keys."""
    log = sa.table(
        log_table,
        sa.column("kind", sa.Text),
        sa.column("xid", Xid8()),
        schema=SCHEMA,
    )
    mark = select(log.c.kind).where(position.since(log.c.xid, since), log.c.kind == "T")
    return bool(master.scalar(select(mark.exists())))
