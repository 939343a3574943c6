"""Reading foreign keys through which a change of one row reaches others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Connection, text

from sites.names import QualifiedName
from sites.sessions.exchange import raw
from sites.sql import load
from sites.tables.table import Table

#: Letters of the catalog: CASCADE, SET NULL, SET DEFAULT.
_ACTIONS = frozenset("cnd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Referring:
    """A foreign key, seen from the table that it refers to."""

    parent: int
    child: QualifiedName
    #: oid of the child, and of the table that it is a partition of
    oid: int
    whole: int
    whole_name: QualifiedName
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]
    #: the catalog's letters (a r c n d)
    on_delete: str
    on_update: str

    @property
    def acts_on_delete(self) -> bool:
        """Whether a delete of a parent row changes or deletes rows that refer to it."""
        return self.on_delete in _ACTIONS

    @property
    def acts_on_update(self) -> bool:
        """Whether an update of a parent row changes rows that refer to it."""
        return self.on_update in _ACTIONS


def referring(connection: Connection, tables: Collection[int]) -> list[Referring]:
    """The foreign keys that refer to some tables, which are given by their oids."""
    rows = connection.execute(text(load("referring")), {"oids": [*tables]})
    return [
        Referring(
            parent=row.parent,
            child=QualifiedName(row.schema, row.table),
            oid=row.child,
            whole=row.whole,
            whole_name=QualifiedName(row.whole_schema, row.whole_table),
            columns=tuple(row.columns),
            parent_columns=tuple(row.parent_columns),
            on_delete=row.on_delete,
            on_update=row.on_update,
        )
        for row in rows
    ]


def acting(
    connection: Connection, tables: Sequence[Table]
) -> Mapping[int, tuple[str, ...]]:
    """Columns through which a change, or a delete, acts on rows that refer to them.

    Returns:
        oid -> columns, for tables that have any.
    """
    rows = connection.execute(
        text(load("acting_references")), {"oids": [table.oid for table in tables]}
    )
    return {row.oid: tuple(row.columns) for row in rows}


def referred(connection: Connection, table: Table) -> frozenset[str]:
    """The columns of a table that foreign keys refer to."""
    rows = connection.scalars(text(load("referred_columns")), {"oid": table.oid})
    return frozenset(rows)


def check_outside(connection: Connection, tables: Collection[int]) -> None:
    """From now on, check foreign keys between these tables and others immediately.

    A caller that writes only these tables learns which row such a key refuses.
    """
    outside = connection.execute(
        text(load("outside_references")), {"oids": [*tables]}
    ).all()
    if outside:
        names = sql.SQL(", ").join(sql.Identifier(*name) for name in outside)
        raw(connection).execute(sql.SQL("SET CONSTRAINTS {} IMMEDIATE").format(names))
