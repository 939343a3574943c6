"""Descriptions of tables for tests that need no database."""

from collections.abc import Sequence

import sqlalchemy as sa

from deferred.queues.queue import Queue
from sites.tables.table import Column, ForeignKey, Table, Unique
from sites.transfer.types import NativeType
from sites.writing.staged import Staged


def column(name: str, number: int, kind: str, *, nullable: bool = True) -> Column:
    """A plain column."""
    return Column(
        name=name,
        number=number,
        state=f"{number} 0 0",
        type=kind,
        plain=kind.partition("(")[0],
        recorded=kind,
        size=-1,
        nullable=nullable,
        holds_null=nullable,
        takes_null=nullable,
        checked=False,
        default=None,
        generated="",
        identity="",
        collation=None,
        comparable=kind not in ("json", "point"),
        equality=None,
        pairable=True,
    )


def unique(name: str, *columns: str, primary: bool = False) -> Unique:
    """A constraint that is checked at once."""
    return Unique(
        name=name,
        columns=columns,
        primary=primary,
        deferrable=False,
    )


def table(name: str, *, parents: Sequence[str] = (), schema: str = "public") -> Table:
    """A table of a key, a unique name, a number and a document, and its parents."""
    return Table(
        schema=schema,
        name=name,
        oid=1,
        kind="r",
        columns=(
            column("id", 1, "integer", nullable=False),
            column("name", 2, "text"),
            column("price", 3, "numeric(10,2)"),
            column("doc", 4, "json"),
        ),
        uniques=(
            unique(f"{name}_pkey", "id", primary=True),
            unique(f"{name}_name_key", "name"),
        ),
        foreign_keys=tuple(_key(parent) for parent in parents),
    )


def staged(of: Table) -> Staged:
    """Changes of a table in a work table, as a push ships them."""
    images = [
        sa.column(f"{side}{n}", NativeType(c.type))
        for side in ("o", "n")
        for n, c in enumerate(of.columns, 1)
    ]
    fixed: list[sa.ColumnClause[object]] = [
        sa.column(name) for name in ("unit", "tran", "several", "call_no", "kind")
    ]
    return Staged(
        table=of,
        source=sa.table("snaptide_work_1", *fixed, *images),
        columns=of.names,
        identity=of.key,
    )


def queue(of: Table, *, partial: bool = False) -> Queue:
    """The queue of a snapshot of a table."""
    return Queue(
        id=1,
        snapshot=of.name,
        base_schema=of.schema,
        base_table=f"snap$_{of.name}",
        queue_table=f"def$_{of.name}",
        extra_table=f"extra$_{of.name}",
        destination="hq",
        target_schema=of.schema,
        target_table=of.name,
        columns=of.names,
        column_numbers=tuple(range(1, len(of.names) + 1)),
        identity_columns=of.key,
        partial=partial,
    )


def _key(parent: str) -> ForeignKey:
    return ForeignKey(
        name=f"{parent}_fkey",
        columns=("id",),
        parent_schema="public",
        parent_table=parent,
        parent_columns=("id",),
        on_delete="a",
        on_update="a",
        deferrable=False,
        always=True,
        delete_columns=(),
    )
