"""Lenses: how columns that a master has dropped and those in their place are related.

The owner of a master table writes one for a split or a merge. Sites that still show the
old columns then go on: what they change is lifted to the new ones, and what they are
shown is made from these.

Columns are known by their numbers, so a lens stays right if columns are renamed after
it was declared: its expressions use the names of that time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, select

from masters.catalog import lens
from sites import QualifiedName
from sites.tables.table import Table

_at = lens.c


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneColumn:
    """A column that sites may still show, and the master has dropped or is to drop."""

    number: int
    #: when the lens was declared
    name: str
    #: of its values in expressions: below all domains, and without a length
    type: str
    #: makes it from columns that are there
    back: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens:
    """Expressions between columns that are gone and those in their place."""

    id: int
    table: QualifiedName
    gone: tuple[GoneColumn, ...]
    #: by the name of a column that is there, the expression that makes it; the names of
    #: columns that are gone go before those of others
    sets: Mapping[str, str]
    #: by the names that expressions use, the numbers of columns that are there
    columns: Mapping[str, int]
    #: those of them that `sets` use
    shared: frozenset[str]

    def applies_to(self, numbers: Collection[int]) -> bool:
        """Whether a site that shows columns of these numbers needs the lens.

        It shows all old columns and what else the expressions need of it, and none of
        the new ones: it would have two values for these.
        """
        at = self.columns
        needed = {*(one.number for one in self.gone), *(at[n] for n in self.shared)}
        return needed <= {*numbers} and not {at[n] for n in self.sets} & {*numbers}

    def is_in_effect(self, table: Table) -> bool:
        """Whether all its old columns are gone, and those that it needs are there.

        Parameters:
            table: its table as it is now.
        """
        there = {column.number: column for column in table.columns}
        gone = all(one.number not in there for one in self.gone)
        if not (gone and there.keys() >= {*self.columns.values()}):
            return False
        # Keys that were made since it was declared: sites send values of keys alone.
        keys = {name for one in table.uniques for name in one.columns}
        keys |= {name for one in table.foreign_keys for name in one.columns}
        return not any(there[self.columns[name]].name in keys for name in self.sets)

    def present(self, table: Table) -> dict[str, str]:
        """By the names in its expressions, what columns that are there are called now.

        Parameters:
            table: its table as it is now, in which the lens is in effect.
        """
        called = {column.number: column.name for column in table.columns}
        return {name: called[number] for name, number in self.columns.items()}


def evaluated(
    expression: str, values: Mapping[str, ColumnElement[Any]]
) -> ColumnElement[Any]:
    """The value of an expression of a lens, in a statement.

    Parameters:
        values: what the names of columns stand for.
    """
    columns = (sa.column(name, value.type) for name, value in values.items())
    source = sa.values(*columns, name="snaptide_row").data([tuple(values.values())])
    result: ColumnElement[Any] = sa.literal_column(f"({expression})")
    value = select(result).select_from(source)
    return value.scalar_subquery()


def of_table(connection: Connection, table: Table) -> tuple[Lens, ...]:
    """The lenses of a table, whether they are in effect or not.

    Parameters:
        table: as it is now; lenses of another one of the same name are left out.
    """
    wanted = select(lens).where(*_is(table), _at.table_oid == table.oid)
    return tuple(map(_of, connection.execute(wanted.order_by(_at.id))))


def note(
    connection: Connection,
    table: Table,
    gone: Collection[GoneColumn],
    sets: Mapping[str, str],
    columns: Mapping[str, int],
    shared: Collection[str],
) -> Lens:
    """Keep a lens that was checked. Writes `lens`.

    Those of a former table of this name go.
    """
    former = sa.delete(lens).where(*_is(table), _at.table_oid != table.oid)
    connection.execute(former)
    new = sa.insert(lens).values(
        table_schema=table.schema,
        table_name=table.name,
        table_oid=table.oid,
        gone=[
            {"number": o.number, "name": o.name, "type": o.type, "back": o.back}
            for o in gone
        ],
        sets=dict(sets),
        columns=dict(columns),
        shared=sorted(shared),
    )
    return _of(connection.execute(new.returning(lens)).one())


def forget(connection: Connection, one: Lens) -> None:
    """Take a lens away. Writes `lens`."""
    connection.execute(sa.delete(lens).where(_at.id == one.id))


def _is(table: Table) -> tuple[ColumnElement[bool], ...]:
    return _at.table_schema == table.schema, _at.table_name == table.name


def _of(row: Row[Any]) -> Lens:
    return Lens(
        id=row.id,
        table=QualifiedName(row.table_schema, row.table_name),
        gone=tuple(GoneColumn(**one) for one in row.gone),
        sets=row.sets,
        columns=row.columns,
        shared=frozenset(row.shared),
    )
