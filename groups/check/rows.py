"""Rows of a group's table at one of its masters, as they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, select

from groups.check.moments import Held
from groups.errors import TablesDiffer
from sites import QualifiedName
from sites.conditions import where
from sites.conditions.ranges import Range
from sites.names import numbered
from sites.tables.table import Table, describe
from sites.transfer import arrow
from snapshots import keys
from snapshots.definitions.snapshot import key_types
from snapshots.differences import images
from snapshots.differences.images import Layout
from snapshots.errors import RowsHidden
from snapshots.keys import Keys, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a table at one master, at one moment."""

    side: Side
    table: Table
    #: the columns that are compared, in an order that all masters share
    columns: tuple[str, ...]
    #: only rows for which this holds
    only: str | None

    @property
    def layout(self) -> Layout:
        """How the images look; the same at all masters."""
        places = list(numbered("c", self.columns))
        return Layout(
            schema=arrow.schema(self.table.column(name).type for name in self.columns),
            key=[places[self.columns.index(name)] for name in self.table.key],
            columns=places,
        )

    @property
    def key_names(self) -> list[str]:
        """The columns in which keys travel."""
        return list(numbered("k", self.table.key))

    def images(self, part: Range) -> Select[Any]:
        """Images of the rows in a part of the table."""
        # The condition may name columns together with the table's name.
        rows = images.source(self.table, part).alias(self.table.name)
        query = select(*images.carried(self.table, self.columns, rows.c))
        return part.restrict(query.where(where.clause(self.only)), rows)

    def images_of(self, wanted: Keys) -> Select[Any]:
        """Images of the rows with these keys, whatever the condition says of them."""
        rows = self.table.sql()
        query = select(*images.carried(self.table, self.columns, rows.c))
        return query.where(self.among(rows, wanted))

    def among(self, rows: sa.FromClause, wanted: Keys) -> sa.ColumnElement[bool]:
        """Whether a row of the table has one of these keys, in whatever spelling."""
        listed = keys.as_rows(wanted, key_types(self.table, self.table.key))
        pairs = zip(self.table.key, self.key_names, strict=True)
        return sa.exists().where(*(rows.c[name] == listed.c[k] for name, k in pairs))


def of_table(
    held: Held, name: QualifiedName, only: str | None, columns: Sequence[str]
) -> list[Rows]:
    """A table at all masters that are compared, in their order.

    Parameters:
        columns: compare only these and the key; all if none is given, also those that
            each master computes itself.

    Raises:
        UnknownTable: a master lacks the table.
        TablesDiffer: a master has other columns.
        RowsHidden: row-level security hides rows of it from the program's user.
    """
    tables = [describe(one.at, name) for one in held.masters]
    first = tables[0]
    for one, table in zip(held.masters, tables, strict=True):
        if _types(table) != _types(first) or table.key != first.key:
            raise TablesDiffer(
                f"{name} has other columns at {one.name} than at "
                f"{held.masters[0].name}.",
                table=str(name),
                master=one.name,
            )
        if table.hides_rows:
            raise RowsHidden(
                f"Row-level security hides rows of {name} at {one.name}.",
                table=str(name),
            )
    kept = {*columns, *first.key} if columns else {*first.names}
    compared = tuple(one for one in first.names if one in kept)
    return [
        Rows(side=one.side, table=table, columns=compared, only=only)
        for one, table in zip(held.masters, tables, strict=True)
    ]


def _types(table: Table) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}
