"""Unlogged tables through which one large refresh passes its rows.

A crash of the server empties them, and Spark may run a task twice: only those
attempts count that the writers' answers name, and only if all their rows are there.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection, TableClause

from sites import names
from sites.catalog import SCHEMA
from sites.names import QualifiedName
from sites.tables import ddl, wide
from sites.tables.ddl import NewColumn
from sites.tables.table import Table
from sites.transfer import arrow
from sites.transfer.types import NativeType
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences.window import Member
from snapshots.errors import StageLost


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A difference that executors have written at the site."""

    table: QualifiedName
    #: the runs of tasks whose rows count
    attempts: tuple[str, ...]
    rows: int

    def expect(self, rows: int) -> None:
        """Check that all rows are there.

        Raises:
            StageLost: there are fewer or more than were written.
        """
        if rows != self.rows:
            raise StageLost(f"The stage holds {rows} of {self.rows} rows.")


def create(connection: Connection, member: Member) -> QualifiedName:
    """Create the empty stage of a snapshot, after dropping one that was left over.

    Values that travel as text may be longer there than at home: a master's row may fit
    into a page when its staged row does not.
    """
    name = _name("stage$_", member.snapshot)
    wide.drop(connection, name)
    common = member.common
    kinds = {f"c{n}": _type(common, c) for n, c in enumerate(member.carried, 1)}
    ends = [sa.Column("op", sa.Text), sa.Column("attempt", sa.Text)]
    table = sa.Table(
        name.name, sa.MetaData(), *ends, schema=name.schema, prefixes=["UNLOGGED"]
    )
    images = [sa.Column(column, NativeType(kind)) for column, kind in kinds.items()]
    sizes = [
        wide.ANY_SIZE if kind == "text" else common.column(column).size
        for kind, column in zip(kinds.values(), member.carried, strict=True)
    ]
    wide.create(connection, table, images, wide=wide.fill_more(sizes))
    return name


def create_keys(connection: Connection, member: Member) -> TableClause:
    """Create the table of a window's keys, where executors can see it."""
    name, keys = _name("keys$_", member.snapshot), member.snapshot.key_names
    kinds = member.key_types(member.base)
    ddl.drop_table(connection, name)
    columns = [NewColumn(name=k, type=t.name) for k, t in zip(keys, kinds, strict=True)]
    ddl.create_table(connection, name, columns, unlogged=True)
    return sa.table(
        name.name,
        *(sa.column(k, t) for k, t in zip(keys, kinds, strict=True)),
        schema=name.schema,
    )


def rows_of(member: Member, stage: Stage) -> TableClause:
    """The stage table for use in statements."""
    names = ["op", "attempt", *(f"c{n}" for n, _ in enumerate(member.carried, 1))]
    return sa.table(stage.table.name, *map(sa.column, names), schema=stage.table.schema)


def drop(connection: Connection, snapshot: Snapshot) -> None:
    """Drop the tables of a snapshot's large refresh, if there are any."""
    wide.drop(connection, _name("stage$_", snapshot))
    ddl.drop_table(connection, _name("keys$_", snapshot))


def _name(prefix: str, snapshot: Snapshot) -> QualifiedName:
    return QualifiedName(SCHEMA, names.derived(prefix, snapshot.qualified))


def _type(table: Table, column: str) -> str:
    kind = table.column(column).type
    if arrow.carrier(kind) == "text" or kind.startswith("character varying"):
        return "text"
    return kind
