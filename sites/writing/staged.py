"""Reading changes that are staged for one table, in SQL expressions.

One source table holds the changes: `kind` (I insert, U update, M update that changes
the key, D delete, R delete and insert of one key), `n1`.. the new and, if it has them,
`o1`.. the old values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import ColumnElement, FromClause, TableClause, and_, case, func

from sites.tables.table import Table, Unique

Kept = TypeVar("Kept")

#: An update that changes the key of its row; the row is found by its old key.
MOVE = "M"

UPDATES = ("U", MOVE)


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Changes for one table, staged in a source table of the same database."""

    table: Table
    source: TableClause
    #: the staged columns, in the order in which the source numbers them
    columns: tuple[str, ...]
    #: the columns that identify a row, among `columns`
    identity: tuple[str, ...]
    #: the source has old values; an update then writes only the columns it changed
    has_old: bool = True
    #: a cache of statements and rules, by name. A session may keep it for long, so the
    #: name of anything read from the catalog contains a version
    kept: dict[Hashable, Any] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def keep(self, what: Hashable, made: Callable[[], Kept]) -> Kept:
        """The object that is cached under a name; made at the first call."""
        if what not in self.kept:
            self.kept[what] = made()
        found: Kept = self.kept[what]
        return found

    @property
    def beside_key(self) -> list[str]:
        """The staged columns that do not identify a row."""
        return [name for name in self.columns if name not in self.identity]

    @property
    def followed(self) -> set[str]:
        """The columns whose change acts on rows that refer to them."""
        return {name for name in self.columns if self.table.column(name).followed}

    def breakable(self, *, moving: bool = False, at_once: bool = False) -> list[Unique]:
        """Unique constraints that changes can break, except the key of the row.

        If a constraint includes the whole identity, only the row itself can hold its
        values. If a constraint has a column that is not staged, the database alone
        checks it.

        Parameters:
            moving: rows change their keys.
            at_once: leave out deferrable ones, which are checked after the whole write.
        """
        return [
            unique
            for unique in self.table.uniques
            if set(unique.columns) <= set(self.columns)
            and (moving or not set(unique.columns) >= set(self.identity))
            and not (at_once and unique.deferrable)
        ]

    def new(self, column: str, source: FromClause | None = None) -> ColumnElement[Any]:
        """The new value of a column, in the source table or an alias of it."""
        return self._value("n", column, source)

    def old(self, column: str, source: FromClause | None = None) -> ColumnElement[Any]:
        """The old value of a column, in the source table or an alias of it."""
        return self._value("o", column, source)

    def key(self, column: str, source: FromClause | None = None) -> ColumnElement[Any]:
        """The value by which the row is found: the old one, or else the new one.

        It is no COALESCE, which PostgreSQL takes for an expression that could tell of
        rows: below a policy of a grant it would read all rows that a site may see. Nor
        does it ask IS NOT NULL, which is false of a composite with one field NULL.
        """
        new = self.new(column, source)
        if not self.has_old:
            return new
        old = self.old(column, source)
        return case((old.is_(None), new), else_=old)

    def same_row(
        self,
        target: FromClause,
        source: FromClause | None = None,
        *,
        was_there: bool = False,
    ) -> ColumnElement[bool]:
        """Whether a change is of this row of the target.

        Parameters:
            was_there: only changes of rows that were there are looked at. They are
                found by a plain column then, of which PostgreSQL has statistics: of an
                expression it has none, and would read a whole table for many changes.
        """
        key = self.old if was_there and self.has_old else self.key
        return and_(*(target.c[name] == key(name, source) for name in self.identity))

    def kind(
        self, *kinds: str, source: FromClause | None = None
    ) -> ColumnElement[bool]:
        """Whether a change is of one of these kinds."""
        return (self.source if source is None else source).c.kind.in_(kinds)

    def _value(
        self, side: str, column: str, source: FromClause | None
    ) -> ColumnElement[Any]:
        table = self.source if source is None else source
        return table.c[f"{side}{self.columns.index(column) + 1}"]


def selected(source: FromClause, rows: Mapping[str, Any]) -> ColumnElement[bool]:
    """The condition that columns of a source have these values.

    A range or tuple stands for all values in it.
    """
    wanted = (_is(source.c[name], value) for name, value in rows.items())
    return and_(sa.true(), *wanted)


def updated(
    staged: Staged, target: TableClause, name: str, source: FromClause | None = None
) -> ColumnElement[Any]:
    """The value of a column after an update: the target's own if it was not changed."""
    new = staged.new(name, source)
    if not staged.has_old:
        return new
    unchanged = staged.table.column(name).unchanged(staged.old(name, source), new)
    return case((unchanged, target.c[name]), else_=new)


def _is(column: ColumnElement[Any], value: object) -> ColumnElement[bool]:
    if isinstance(value, range):
        return column.between(value.start, value.stop - 1)
    if isinstance(value, tuple):
        # As one array: the values may be more than a statement takes.
        return column == func.any(sa.literal(list(value), sa.ARRAY(column.type)))
    return column == value
