"""Columns that a site still shows, and that its master makes of others by a lens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.sql.expression import ColumnCollection

from masters.log import lenses
from masters.log.lenses import Lens
from sites.sessions import revisions
from sites.tables.table import Table
from sites.transfer.types import NativeType
from snapshots.definitions import rewrites
from snapshots.definitions.snapshot import Snapshot

#: Columns of rows, by name.
Values = Mapping[str, ColumnElement[Any]] | ColumnCollection[str, ColumnElement[Any]]

#: Masters have lenses from this revision of the catalog on.
_SINCE = "0075"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldColumn:
    """A column that the master has no more, and the expression that makes it."""

    expression: str
    #: by the names that it uses, what these columns of the master are called now
    inputs: Mapping[str, str]
    #: of its values
    type: NativeType

    def value(self, columns: Values) -> ColumnElement[Any]:
        """Its value in a row of the master table that has these columns."""
        inputs = {name: columns[now] for name, now in self.inputs.items()}
        return sa.cast(lenses.evaluated(self.expression, inputs), self.type)


def with_old(
    master: Connection, site: Connection, snapshot: Snapshot, table: Table, base: Table
) -> tuple[Table, Mapping[str, OldColumn]]:
    """A master table with the columns that a snapshot shows by a lens.

    They have the numbers that they had, and states that change with the lens: what the
    site shows may be other values than the lens makes.

    Parameters:
        table, base: the master table as it is now, and the snapshot's own.

    Returns:
        The table, and those of its columns that are made, by name.
    """
    known = rewrites.numbers(site, snapshot, table)
    if known is None:
        return table, {}
    called = {number: name for name, number in known.items()}
    there = {column.name: column for column in table.columns}
    old: dict[str, OldColumn] = {}
    for lens in _applying(master, table, known):
        for gone in lens.gone:
            name = called[gone.number]
            mine = base.column(name)
            old[name] = OldColumn(
                expression=gone.back, inputs=lens.present(table), type=mine.staged_type
            )
            state = f"{gone.number} lens {lens.id}"
            there[name] = replace(mine, number=gone.number, state=state)
    return replace(table, columns=tuple(there.values())), old


def made_for(
    master: Connection, table: Table, known: Mapping[str, int]
) -> frozenset[str]:
    """The columns that lenses make for a site that shows some columns.

    Parameters:
        table: the master table as it is now.
        known: the numbers there of all columns that the site shows, by name.
    """
    called = {number: name for name, number in known.items()}
    return frozenset(
        called[gone.number]
        for lens in _applying(master, table, known)
        for gone in lens.gone
    )


def _applying(
    master: Connection, table: Table, known: Mapping[str, int]
) -> Iterator[Lens]:
    if (revisions.of_site(master) or "") < _SINCE:
        return
    for lens in lenses.of_table(master, table):
        if lens.is_in_effect(table) and lens.applies_to(known.values()):
            yield lens
