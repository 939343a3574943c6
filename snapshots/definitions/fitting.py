"""Checks that a snapshot still fits its master table.

If a type refuses a value (a text too long, a number out of range), the refresh says so.
If a type rounds or cuts it, the site would silently hold another value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from masters.group_schema import SchemaVersion
from sites.tables import lossy
from sites.tables.table import Table
from snapshots.definitions import rewrites
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import (
    ColumnChanged,
    ColumnGone,
    KeyNotUnique,
    MasterBehind,
    RowsHidden,
)


def refuse_unfit(
    snapshot: Snapshot,
    table: Table,
    base: Table,
    master: str,
    version: SchemaVersion | None,
) -> None:
    """Make sure that both tables of a snapshot still have its columns, and its values.

    Parameters:
        table, base: the master table, and the snapshot's own.
        master: the site of the master table.
        version: of the schema of its replication group there; None without one.

    Raises:
        ColumnGone, RowsHidden: one of the two has changed.
        KeyNotUnique: nothing tells rows of the master table apart any more.
        MasterBehind, ColumnChanged: after DDL, the master table does not fit.
    """
    for one in (table, base):
        _refuse_altered(snapshot, one)
    _refuse_alike(snapshot, table)
    rewrites.refuse_displaced(snapshot, base)
    _refuse_other_version(snapshot, table, base, master, version)
    _refuse_lossy(snapshot, table, base)
    rewrites.refuse_generated_otherwise(snapshot, table, base)


def _refuse_altered(snapshot: Snapshot, table: Table) -> None:
    """Make sure that a table has the snapshot's columns, and shows all of its rows.

    Parameters:
        table: the master table, or the snapshot's own.

    Raises:
        ColumnGone, RowsHidden.
    """
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


def _refuse_alike(snapshot: Snapshot, table: Table) -> None:
    """Make sure that no two rows of the master table have one key.

    Only one of them would come to the site.

    Raises:
        KeyNotUnique.
    """
    if not table.tells_apart(snapshot.identity_columns):
        raise KeyNotUnique(
            f"{table.qualified} has no key over {', '.join(snapshot.identity_columns)} "
            "any more: nothing else tells its rows apart.",
            snapshot=snapshot.key,
            columns=[*snapshot.identity_columns],
        )


def _refuse_lossy(snapshot: Snapshot, table: Table, base: Table) -> None:
    """Make sure that no value of the master would be changed on its way.

    Parameters:
        table, base: the master table, and the snapshot's own.

    Raises:
        ColumnChanged: a column has another type now, which might change a value.
    """
    for name in snapshot.columns:
        there, here = table.column(name), base.column(name)
        if there.type != here.type and not lossy.holds(here.recorded, there.recorded):
            raise ColumnChanged(
                f"{snapshot.master}.{name} is {there.type} at the master, but "
                f"{here.type} in {snapshot.key}.",
                snapshot=snapshot.key,
                column=name,
            )


@contextmanager
def known_values(snapshot: Snapshot) -> Iterator[None]:
    """Say whose values the site does not know, as one that an enum got at the master.

    Raises:
        ColumnChanged: a value is none of its type at the site.
    """
    try:
        yield
    except DBAPIError as error:
        if not isinstance(error.orig, pg.InvalidTextRepresentation):
            raise
        raise ColumnChanged(
            f"{snapshot.master} has a value for which {snapshot.key} has no place: "
            f"{sqlstate.message(error).rstrip('.')}. If it is one of an enum, add it "
            "at the site (ALTER TYPE ... ADD VALUE).",
            snapshot=snapshot.key,
        ) from error


def _refuse_other_version(
    snapshot: Snapshot,
    table: Table,
    base: Table,
    master: str,
    version: SchemaVersion | None,
) -> None:
    """Make sure that a master table of another schema version still fits a snapshot.

    Added columns do not matter. In another group than before, a table may have any
    shape, and its versions cannot be compared with those of the former group.

    Parameters:
        table, base: the master table, and the snapshot's own.
        version: the version of the group's schema at the master.

    Raises:
        MasterBehind: the version is older than what the snapshot has seen.
        ColumnChanged: a column that is carried has another type.
    """
    known = snapshot.seen
    if known is None or version is None or version == known:
        return
    if version.group_id == known.group_id and version.version < known.version:
        raise MasterBehind(
            f"{master} is behind: {snapshot.master} has schema version "
            f"{version.version} there, but {snapshot.key} already has {known.version}.",
            snapshot=snapshot.key,
            behind=master,
        )
    for name in snapshot.columns:
        there, here = table.column(name).type, base.column(name).type
        if there != here:
            raise ColumnChanged(
                f"{snapshot.master}.{name} is {there} at {master} since schema "
                f"version {version.version}, but {here} in {snapshot.key}.",
                snapshot=snapshot.key,
                column=name,
            )
