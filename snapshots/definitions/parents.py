"""The other tables that the condition of a snapshot asks, and the rows they decide.

A row enters or leaves such a snapshot when it changes itself, or when a row changes
that its condition looks for. A refresh takes all rows that may have, reads them through
the whole condition at one moment of the master, and compares them with the site. So it
does not matter how AND, OR and NOT join the parts of the condition, only that no row is
missed. None is: a row that has not changed itself since the group's position looks for
the same keys now as it did then. So it is enough to take the rows in the table's own
log, and those that look now, at the master, for a key in the log of another table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Boolean, Connection, FromClause, Row, Select, TableClause, select

from masters.log import catalog
from sites.capture import position
from sites.conditions import ranges, subqueries
from sites.conditions.implied import implies
from sites.conditions.subqueries import Subquery
from sites.names import QualifiedName, numbered
from sites.tables.table import ForeignKey, Table, describe
from snapshots.definitions.errors import NeedsParent
from snapshots.definitions.rewrites import Columns, Files
from snapshots.definitions.snapshot import Snapshot, key_types, members
from snapshots.errors import ColumnGone, RowsHidden
from snapshots.keys import Keys, as_rows

#: Facts about such a table: its files, by oid, and the state of each column.
Facts = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A table of the master that conditions of snapshots ask."""

    table: Table
    #: its snapshot log, if it has one
    log: Row[Any] | None
    #: the file of each table that holds its rows, by oid
    files: Files
    #: a part of it came after the group's position, or came back
    has_other_parts: bool

    @property
    def key(self) -> tuple[str, ...]:
        """The columns by which the log identifies rows; empty without a log."""
        return () if self.log is None else tuple(self.log.identity_columns)

    @property
    def key_names(self) -> tuple[str, ...]:
        """How the log numbers them: k1, k2, ..."""
        return numbered("k", self.key)

    def log_rows(self) -> TableClause:
        """The log, for use in statements."""
        assert self.log is not None
        return catalog.rows_of(self.log.log_table, key_types(self.table, self.key))

    @property
    def columns(self) -> Columns:
        """The state of each column, by name."""
        return {column.name: column.state for column in self.table.columns}


def read(
    master: Connection,
    snapshots: Sequence[Snapshot],
    logs: Mapping[QualifiedName, Row[Any]],
    since: str | None,
) -> dict[QualifiedName, Parent]:
    """Read the tables that the conditions of snapshots ask.

    Parameters:
        logs: the catalog rows of their snapshot logs.
        since: the group's position.

    Raises:
        UnknownTable: one of them is gone.
        ColumnGone, RowsHidden: one has changed, and the condition cannot be evaluated.
    """
    found: dict[QualifiedName, Parent] = {}
    for snapshot in snapshots:
        for name, uses in snapshot.asked.items():
            if name not in found:
                found[name] = _read(master, name, logs.get(name), since)
            _refuse_altered(found[name].table, uses, snapshot)
    return found


def _read(
    master: Connection, name: QualifiedName, log: Row[Any] | None, since: str | None
) -> Parent:
    parts, table = ranges.leaves(master, name), describe(master, name)
    return Parent(
        table=table,
        log=log,
        files={oid: leaf.file for oid, leaf in parts.items()},
        has_other_parts=bool(ranges.came_since(master, table, parts, since)),
    )


def _refuse_altered(table: Table, uses: Collection[str], snapshot: Snapshot) -> None:
    gone = sorted(set(uses) - set(table.names))
    if gone:
        raise ColumnGone(
            f"{table.qualified} no longer has the column {', '.join(gone)}, which the "
            f"condition of {snapshot.key} uses.",
            snapshot=snapshot.key,
            columns=gone,
        )
    if table.hides_rows:
        raise RowsHidden(
            f"Row-level security hides rows of {table.qualified}, which the condition "
            f"of {snapshot.key} asks, from Snaptide's user.",
            snapshot=snapshot.key,
        )


def at_site(connection: Connection, snapshot: Snapshot) -> str | None:
    """The condition of a snapshot's user view, which asks tables of the site.

    A read-only snapshot whose condition asks other tables has none: users cannot write,
    and refreshes bring only rows that belong.

    Raises:
        NeedsParent: the group has no snapshot of such a table with all that is asked.
    """
    if not snapshot.parts.subqueries:
        return snapshot.condition
    if not snapshot.updatable:
        return None
    here = {table: one.base for table, one in asked_here(connection, snapshot).items()}
    return subqueries.renamed(str(snapshot.condition), here)


def asked_here(
    connection: Connection, snapshot: Snapshot
) -> dict[QualifiedName, Snapshot]:
    """The snapshots that the user view of a snapshot asks, by master table.

    Raises:
        NeedsParent: the group has no snapshot of such a table with all that is asked.
    """
    group = [*members(connection, snapshot.refresh_group), snapshot]
    found = {}
    for table, uses in snapshot.asked.items():
        suitable = [s for s in group if s.master == table and uses <= {*s.columns}]
        if not suitable:
            raise NeedsParent(
                f"The condition of {snapshot.key} asks {table}: refresh group "
                f"{snapshot.refresh_group} needs a snapshot of it with "
                f"{', '.join(sorted(uses))}.",
                snapshot=snapshot.key,
                table=str(table),
            )
        whole = (one for one in suitable if _has_all(one, snapshot))
        found[table] = next(whole, suitable[0])
    return found


def refuse_hiding(connection: Connection, snapshot: Snapshot) -> None:
    """Refuse a user view that would hide rows, since the site lacks what they look for.

    Raises:
        NeedsParent: the group has no snapshot with all that is asked.
    """
    if not snapshot.updatable:
        return
    for table, parent in asked_here(connection, snapshot).items():
        if not _has_all(parent, snapshot):
            raise NeedsParent(
                f"The condition of {snapshot.key} finds rows of {table} that snapshot "
                f"{parent.key} does not have: {parent.condition}.",
                snapshot=snapshot.key,
                table=str(table),
            )


def _has_all(parent: Snapshot, child: Snapshot) -> bool:
    """Whether a snapshot has all rows that the condition of another one may find."""
    every = child.parts.every()
    return all(_has(parent, one) for one in every if one.table == parent.master)


def _has(parent: Snapshot, one: Subquery) -> bool:
    """Whether a snapshot has all rows that a subquery may find.

    It has if it has all rows, or if the subquery asks of them what its condition does,
    and perhaps more.
    """
    whole = parent.condition is None
    return whole or implies(one.shape, parent.parts.shape)


def follows(
    child: Snapshot, key: ForeignKey, parent: Snapshot, *, hidden: bool = False
) -> bool:
    """Whether each row of a snapshot has its parent in the other one.

    It has if that one holds all rows, or if the child's condition requires, by this
    foreign key, a row that the other one has.

    Parameters:
        hidden: a publication of the master may hide rows from that one.
    """
    pairs = {*zip(key.columns, key.parent_columns, strict=True)}
    return (parent.condition is None and not hidden) or any(
        one.required
        and one.table == parent.master
        and {*zip(one.columns, one.key, strict=True)} == pairs
        and _has(parent, one)
        for one in child.parts.subqueries
    )


def changes_read_only(key: ForeignKey, child: Snapshot, parent: Snapshot) -> bool:
    """Whether a foreign key would change a snapshot that nobody may change.

    The master allows what its user did to the parent, so the site must, too.
    """
    return key.acts and parent.updatable and not child.updatable


def log_for(snapshot: Snapshot, parent: Parent) -> Row[Any] | None:
    """The log of a table, if it identifies rows as the snapshot's condition does."""
    log, name = parent.log, parent.table.qualified
    asks = snapshot.parts.every()
    known = log is not None and all(
        {*one.key} == {*log.identity_columns} for one in asks if one.table == name
    )
    return log if known else None


def facts(snapshot: Snapshot, seen: Mapping[QualifiedName, Parent]) -> Facts:
    """The facts to keep about the tables that a snapshot's condition asks."""
    return {
        str(name): _facts(seen[name].columns, uses, seen[name].files)
        for name, uses in snapshot.asked.items()
    }


def is_rewritten(
    snapshot: Snapshot, name: QualifiedName, columns: Columns, files: Files
) -> bool:
    """Whether a table's values may have changed with no trigger to see it.

    Parameters:
        columns, files: of the table as it is now.
    """
    before = (snapshot.parents or {}).get(str(name))
    now = _facts(columns, snapshot.asked[name], files)
    return before != now or not all(files.values())


def _facts(columns: Columns, uses: Collection[str], files: Files) -> dict[str, Any]:
    return {
        "files": {str(oid): files[oid] for oid in sorted(files)},
        "columns": {name: columns.get(name) for name in sorted(uses)},
    }


def logged(parent: Parent, since: str) -> Select[Any]:
    """Keys (k1, k2, ...) of the rows of a table that changed since a position."""
    log = parent.log_rows()
    keys = [log.c[name] for name in parent.key_names]
    changed = sa.and_(position.since(log.c.xid, since), log.c.kind != "T")
    return select(*keys).where(changed).distinct()


def looking(
    table: Table, key: Sequence[str], one: Subquery, parent: Parent, changed: Keys
) -> Select[Any]:
    """Keys (k1, k2, ...) of the rows that look for one of some rows of a table.

    Parameters:
        table, key: the table of these rows, and the columns that identify them.
        one: what the condition on these rows looks for.
        parent: the table that it looks in, and `changed` the keys there.
    """
    rows = table.sql()
    return _joined(rows, key, one, parent, changed)


def accepted(
    table: Table, key: Sequence[str], one: Subquery, parent: Parent, changed: Keys
) -> Select[Any]:
    """As `looking`, only the rows that find what they look for."""
    rows = table.sql()
    found = sa.literal_column(f"({one.text})", Boolean)
    # Others may not be readable: a publication need not have them.
    read = dict.fromkeys((*key, *one.columns))
    kept = select(*(rows.c[name] for name in read)).where(found).subquery("kept")
    return _joined(kept, key, one, parent, changed)


def _joined(
    rows: FromClause,
    key: Sequence[str],
    one: Subquery,
    parent: Parent,
    changed: Keys,
) -> Select[Any]:
    wanted = as_rows(changed, key_types(parent.table, parent.key))
    theirs = dict(zip(parent.key, parent.key_names, strict=True))
    same = [
        rows.c[column] == wanted.c[theirs[name]]
        for column, name in zip(one.columns, one.key, strict=True)
    ]
    names = zip(key, numbered("k", key), strict=True)
    return select(*(rows.c[name].label(k) for name, k in names)).join_from(
        rows, wanted, sa.and_(*same)
    )
