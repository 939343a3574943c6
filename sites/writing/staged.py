"""Reading changes that are staged for one table, in SQL expressions.

One source table holds the changes: `kind` (I insert, U update, M update that changes
the key, D delete, R delete and insert of one key), `n1`.. the new and, if it has them,
`o1`.. the old values.

Statements name columns, and a table can be altered after it was described; so columns
are checked by their numbers. PostgreSQL looks up the present names in its caches, so
that the answer is right also in a transaction whose snapshot is older. A statement
locks the tables that it names before it runs: a table that it names keeps its columns
until the end of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    FromClause,
    TableClause,
    Text,
    and_,
    case,
    cast,
    func,
    literal_column,
)
from sqlalchemy.dialects.postgresql import OID

from sites.tables.table import Table, Unique
from sites.transfer.values import array_text

Kept = TypeVar("Kept")

#: An update that changes the key of its row; the row is found by its old key.
MOVE = "M"

UPDATES = ("U", MOVE)

#: What is known of a described column.
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "oid": OID(),
    "schema": Text(),
    "table": Text(),
    "name": Text(),
    "number": sa.Integer(),
    "type": Text(),
}

_IDENTIFIED = "pg_identify_object('pg_catalog.pg_class'::regclass, was.oid, was.number)"


@dataclass(frozen=True)
class Between:
    """All values from one to another, in a statement that gets both when it is run."""

    first: ColumnElement[Any]
    last: ColumnElement[Any]


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

    def describes_the_same(self, other: Staged) -> bool:
        """Whether statements for this are right for another with its source's name."""
        mine, its = (
            (one.table, one.columns, one.identity, one.has_old) for one in (self, other)
        )
        return mine == its

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

    A range, a tuple or `Between` stands for all values in it.
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


def never_updated(staged: Staged, names: Sequence[str]) -> list[str]:
    """Those of some columns that are GENERATED ALWAYS AS IDENTITY.

    PostgreSQL takes values of them from an INSERT alone.
    """
    return [name for name in names if staged.table.column(name).identity == "a"]


def leaves_alone(staged: Staged, target: TableClause) -> list[ColumnElement[bool]]:
    """Conditions that a change gives no other value to columns that no update writes.

    They are about columns beside the key. An update without them would be taken for one
    that has written all values.
    """
    names = never_updated(staged, staged.beside_key)
    return [updated(staged, target, name) == target.c[name] for name in names]


def _is(column: ColumnElement[Any], value: object) -> ColumnElement[bool]:
    if isinstance(value, range):
        return column.between(value.start, value.stop - 1)
    if isinstance(value, Between):
        return column.between(value.first, value.last)
    if isinstance(value, tuple):
        # As one array: the values may be more than a statement takes.
        return column == func.any(sa.literal(list(value), sa.ARRAY(column.type)))
    return column == value


def described_columns(
    staged: Sequence[Staged], *, with_types: bool = True
) -> dict[str, str]:
    """The staged columns as their tables were described: for `moved_columns`.

    Parameters:
        with_types: the statement runs in a session of ours, which prints types alike.
    """
    rows = [
        (
            one.table.oid,
            one.table.schema,
            one.table.name,
            name,
            (column := one.table.column(name)).number,
            column.type if with_types else None,
        )
        for one in staged
        for name in one.columns
    ]
    parts = zip(*rows, strict=True) if rows else ((),) * len(_TYPES)
    return {
        f"its_{part}": array_text(values)
        for part, values in zip(_TYPES, parts, strict=True)
    }


def others(numbers: Mapping[str, int], table: Table) -> dict[str, str | None]:
    """Columns whose names others have by now.

    Parameters:
        numbers: of columns of this table, by the names that they had.

    Returns:
        By name, the name that the column has now; None if it is gone.
    """
    called = {column.number: column.name for column in table.columns}
    return {
        name: called.get(number)
        for name, number in numbers.items()
        if name in table.names and called.get(number) != name
    }


def moved_columns(values: Mapping[str, str] | None = None) -> ColumnElement[list[str]]:
    """The names of described columns that are others by now, or have another type.

    Parameters:
        values: those of `described_columns`; otherwise the statement gets them when it
            is run.
    """
    arrays = [
        cast(
            sa.bindparam(f"its_{part}", values and values[f"its_{part}"], type_=Text),
            sa.ARRAY(type_),
        )
        for part, type_ in _TYPES.items()
    ]
    was = func.unnest(*arrays).table_valued(
        *(sa.column(part, type_) for part, type_ in _TYPES.items())
    )
    was = was.render_derived(name="was")
    full = func.format("%I.%I.%I", was.c.schema, was.c.table, was.c.name)
    now = literal_column(f"({_IDENTIFIED}).identity", Text)
    moved_or_altered = sa.or_(
        now.is_distinct_from(full), _type(was).is_distinct_from(was.c.type)
    )
    listed = sa.select(full).select_from(was).where(moved_or_altered)
    return func.array(listed.scalar_subquery(), type_=sa.ARRAY(Text))


def _type(was: sa.FromClause) -> ColumnElement[str | None]:
    """The type as it is printed now; NULL if it was not described."""
    column = sa.table(
        "pg_attribute", *map(sa.column, ("attrelid", "attnum", "atttypid", "atttypmod"))
    ).c
    # A scalar, so that PostgreSQL looks up each column by its number.
    return (
        sa.select(func.format_type(column.atttypid, column.atttypmod))
        .where(
            column.attrelid == was.c.oid,
            column.attnum == was.c.number,
            was.c.type.is_not(None),
        )
        .scalar_subquery()
    )
