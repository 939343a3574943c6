"""Finds the keys that a refresh has to look at, at one moment of the master.

At that moment it reads the master's position, how far this site's queue has been
answered (the marker), and the logs since the group's position. Only then does it
read the site's own log: a change of the site that the marker does not cover is
pending, whatever happens to it meanwhile (docs/explanation/held-back.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, TableClause

from deferred.batches import lost_rows, marker
from masters import group_schema
from masters.group_schema import SchemaVersion
from masters.log import catalog
from sites.capture import position
from sites.conditions import ranges
from sites.conditions.ranges import Leaf
from sites.conditions.subqueries import Subquery
from sites.names import QualifiedName
from sites.sessions import identity
from sites.sessions.identity import Identity
from sites.tables.table import Table, describe_all
from sites.transfer.types import NativeType
from snapshots.definitions import (
    fitting,
    granted,
    old_columns,
    parents,
    refresh_group,
    rewrites,
)
from snapshots.definitions.old_columns import OldColumn
from snapshots.definitions.parents import Parent
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.snapshot import Snapshot, carried, key_types, tables_of
from snapshots.differences import own_keys
from snapshots.differences.moment import Moment
from snapshots.errors import NoSnapshotLog, SnapshotLogTooYoung
from snapshots.keys import Keys

LOAD, FAST, COMPLETE = "load", "fast", "complete"

#: A snapshot's tables at the master and at the site, and the leaves of the former.
_Tables: TypeAlias = tuple[Table, Table, dict[int, Leaf]]

#: What a master says of itself and the site when it says who it is; takes `its_id`,
#: and the functions that are asked for.
_FACTS = (
    position.CURRENT,
    marker.SEEN,
    lost_rows.LOST,
    group_schema.VERSIONS,
    rewrites.CALLED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One snapshot of the group, as this refresh will treat it."""

    snapshot: Snapshot
    base: Table
    master: Table
    log_table: str | None
    #: the other tables that the condition asks
    parents: Mapping[QualifiedName, Parent]
    #: the functions that it calls
    functions: rewrites.Functions
    #: load, fast or complete
    method: str
    #: the moment of the master that the site shows, or None; whether the log has news
    since: str | None
    logged: bool = True
    #: the tables that hold the master's rows now, by oid
    parts: Mapping[int, Leaf]
    #: for a fast refresh: what the condition looks for, and keys of rows there that
    #: have changed so that rows may enter or leave (`snapshots.differences.moved`)
    moved: tuple[tuple[Subquery, Keys], ...] = ()
    #: the site's rows have the values that refreshes have brought, so it can look for
    #: those that have left with another row
    has_our_values: bool = True
    #: the schema version of the master table's replication group; None without one
    schema_version: SchemaVersion | None = None
    #: values of partition columns that all of its rows have (`own_keys`)
    own: own_keys.Values = field(default_factory=dict)
    #: the partitions of the log that can hold rows since then; empty for all
    slots: tuple[int, ...] = ()
    #: those columns of the master table that a lens makes for this site, by name
    old: Mapping[str, OldColumn] = field(default_factory=dict)
    #: if all rows of a large table are compared, whether each side sums them up first
    summed_up: bool = True
    #: by way that it could be compared by, the seconds that were expected
    #: (`snapshots.differences.ways`); None if nothing says so
    estimates: Mapping[str, float | None] = field(default_factory=dict)
    #: a further condition on the rows that are looked at, at either side
    #: (`snapshots.check`); it has the master table's name for them
    only: str | None = None

    def asked_again(self) -> Iterator[tuple[Subquery, Parent, Keys]]:
        """What the condition looks for, where the answer may be another one now."""
        for one, changed in self.moved:
            if changed.num_rows:
                yield one, self.parents[one.table], changed

    @property
    def may_differ(self) -> bool:
        """Whether a row of the master may have changed, entered or left since then."""
        return self.logged or bool(self.joined) or any(self.asked_again())

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
    def has_outgrown_site(self) -> bool:
        """Whether the master may hold keys for which the site has no place."""
        return self.method != LOAD and any(
            self.base.column(name).recorded != self.master.column(name).recorded
            for name in self.snapshot.identity_columns
        )

    @property
    def states(self) -> dict[str, str]:
        """The state of each column of the master table, by name."""
        return {column.name: column.state for column in self.master.columns}

    @property
    def common(self) -> Table:
        """The base table, with columns that are large enough for the master's values.

        So both sides are read and staged, until it is known whose row does not fit.
        """
        return self.base.as_large_as(self.master)

    def key_types(self, table: Table) -> list[NativeType]:
        """The types in which keys of either side are looked up in a table of one."""
        large = table.as_large_as(self.base).as_large_as(self.master)
        return key_types(large, self.snapshot.identity_columns)

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns whose values are compared and written."""
        return carried(self.snapshot, self.base)

    def log(self) -> TableClause:
        """The master's snapshot log, for use in statements."""
        assert self.log_table is not None
        kinds = key_types(self.master, self.snapshot.identity_columns)
        return catalog.rows_of(self.log_table, kinds, self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Moment):
    """A moment of the master, and the stretch of its logs that leads there."""

    #: what the group shows; a snapshot that was left behind shows a moment of its own
    since: str | None
    master: Identity
    #: the master keeps notes of rows of the site that it does not have
    lost: bool
    members: tuple[Member, ...]
    #: tables with a part whose changes the snapshot log does not record
    unrecorded: tuple[QualifiedName, ...] = ()


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
        site: used only to describe the snapshots.
        methods: the character asked for, by name of snapshot; `?` for the others.
        known: snapshots that were registered at the master all the time.

    Raises:
        MasterChanged: the database is not the one that the position belongs to.
        NoSnapshotLog, SnapshotLogTooYoung: a fast refresh is asked and not possible.
        ColumnGone, RowsHidden, KeyNotUnique: a table is not what it was.
        MasterBehind, ColumnChanged: after DDL, the master table does not fit.
        BeyondGrant: a publication of the master chooses other rows for the site.
    """
    # In this moment: a repair may have come since the master was last asked.
    them, row = identity.confirm_and_read(
        master,
        group.master,
        _FACTS,
        {"its_id": who.site_id, **rewrites.functions_asked(snapshots)},
        partner=True,
    )
    here = row.position
    complete = all(methods.get(s.key) == "c" for s in snapshots)
    refresh_group.confirm_master(them, group, here, complete=complete)
    if group.incarnation not in (None, them.incarnation):
        # The master was restored and repaired: positions from before mean nothing.
        known = ()
    described = _described(master, site, snapshots)
    members: dict[str, Member] = {}
    unrecorded: dict[QualifiedName, None] = {}
    # Most often there is one such moment: that of the group.
    for since in dict.fromkeys(map(group.shown_by, snapshots)):
        some = [s for s in snapshots if group.shown_by(s) == since]
        logs = catalog.logs_since(master, tables_of(some), since)
        news = catalog.news_since(master, logs.values(), since) if since else {}
        unrecorded |= dict.fromkeys(n for n, log in logs.items() if not log.whole)
        asking = [s for s in some if s.asked]
        seen = _Seen(
            group=group,
            master=master,
            site=site,
            row=row,
            known=known,
            since=since,
            logs=logs,
            news=news,
            parents=parents.read(master, asking, logs, since) if asking else {},
        )
        for s in some:
            letter = methods.get(s.key, "?").lower()
            members[s.key] = _member(seen, s, letter, described[s.key])
    if any(member.master.divided for member in members.values()):
        granted.refuse_others(master, snapshots)
    return Window(
        position=here,
        since=group.position,
        master=them,
        marker=marker.seen(row.marker),
        lost=row.lost,
        members=tuple(members[s.key] for s in snapshots),
        unrecorded=tuple(unrecorded),
    )


def _described(
    master: Connection, site: Connection, snapshots: Sequence[Snapshot]
) -> dict[str, _Tables]:
    """By snapshot, its tables at the master and at the site, and the former's leaves.

    `leaves_of_all` fails where a table is gone, and `describe_all` names it before.
    """
    names = [one.master for one in snapshots]
    there = describe_all(master, names)
    here = describe_all(site, [one.base for one in snapshots])
    each = zip(there, here, ranges.leaves_of_all(master, names), strict=True)
    return {one.key: found for one, found in zip(snapshots, each, strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What is read for all snapshots of a group that show one moment of the master."""

    group: RefreshGroup
    master: Connection
    site: Connection
    #: what the master says of itself
    row: Row[Any]
    known: Collection[str]
    #: the moment that they show; `logs` is looked at from there on
    since: str | None
    logs: Mapping[QualifiedName, Row[Any]]
    #: by log with rows since then, whether they tell of a TRUNCATE
    news: Mapping[str, bool]
    #: the tables that conditions ask
    parents: Mapping[QualifiedName, Parent]


def _member(seen: _Seen, snapshot: Snapshot, letter: str, tables: _Tables) -> Member:
    """Fit a snapshot to its master table.

    Parameters:
        letter: of the method that is asked for.
    """
    since, (table, base, parts) = seen.since, tables
    log = seen.logs.get(snapshot.master)
    if log is not None and tuple(log.identity_columns) != snapshot.identity_columns:
        log = None  # it was made again, by another key
    asked = {name: seen.parents[name] for name in snapshot.asked}
    logs = {snapshot.master: log} | {
        name: parents.log_for(snapshot, one) for name, one in asked.items()
    }
    versions = group_schema.of(seen.row.versions) if seen.row.versions else {}
    version = versions.get(snapshot.master)
    old: Mapping[str, OldColumn] = {}
    if not rewrites.has_same_columns(snapshot, table):
        table, old = old_columns.with_old(seen.master, seen.site, snapshot, table, base)
    fitting.refuse_unfit(snapshot, table, base, seen.group.master, version)
    came = ranges.came_since(seen.master, table, parts, since)
    before = set(snapshot.master_parts or ())
    kept = snapshot.key in seen.known and before <= parts.keys() - came
    if not all(log is None or log.whole for log in logs.values()):
        # As long as statements on a part are not recorded, rows may change unseen.
        parts = {oid: replace(leaf, file=0) for oid, leaf in parts.items()}
    member = Member(
        snapshot=snapshot,
        base=base,
        master=table,
        log_table=None if log is None else log.log_table,
        method=_method(seen, snapshot, letter, logs, kept),
        since=since,
        logged=log is None or log.log_table in seen.news,
        slots=catalog.slots_since(since, seen.row.position) if since else (),
        parents=asked,
        functions=rewrites.functions_of(snapshot, seen.row.functions),
        parts=parts,
        schema_version=version,
        old=old,
    )
    if member.method == FAST and _is_rewritten(member):
        return replace(member, method=COMPLETE)
    if member.method != FAST or log is None or not log.partition_columns:
        return member
    return replace(member, own=own_keys.values(seen.master, snapshot, table, log))


def _is_rewritten(member: Member) -> bool:
    """Whether values, or what fulfils the condition, may have changed unseen."""
    if rewrites.functions_differ(member.snapshot, member.functions):
        return True
    why = rewrites.why_rewritten(member.snapshot, member.states, member.files)
    return why is not None or any(
        one.has_other_parts
        or parents.is_rewritten(member.snapshot, name, one.columns, one.files)
        for name, one in member.parents.items()
    )


def _method(
    seen: _Seen,
    snapshot: Snapshot,
    letter: str,
    logs: Mapping[QualifiedName, Row[Any] | None],
    kept: bool,
) -> str:
    if not snapshot.loaded or seen.since is None:
        return LOAD
    if letter == "c":
        return COMPLETE
    for table, log in logs.items():
        if log is None:
            if letter == "f":
                raise NoSnapshotLog(
                    f"{table} has no snapshot log by its key: {snapshot.key} cannot be "
                    "refreshed fast."
                )
            return COMPLETE
        lacks_changes = not (kept and log.whole and log.reaches)
        if lacks_changes and letter == "f":
            raise SnapshotLogTooYoung(
                f"The snapshot log of {table} does not hold all changes since the "
                f"last refresh of {snapshot.key}.",
                snapshot=snapshot.key,
            )
        if lacks_changes or seen.news.get(log.log_table):
            return COMPLETE
    return FAST
