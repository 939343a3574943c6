"""Describing a table of the user's, as the catalog has it."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, TableClause, Text, func

from sites.errors import UnknownTable
from sites.names import QualifiedName
from sites.sessions.exchange import Bound, Later, hold
from sites.sessions.prepared import Prepared, known_tables
from sites.sql import load
from sites.transfer.types import NativeType, as_record

#: Bytes of their values.
_INTEGERS = {"smallint": 2, "integer": 4, "bigint": 8}

_EXACT = {
    *_INTEGERS,
    *("text", "character varying", "uuid", "boolean", "bytea", "date"),
    "timestamp without time zone",
    "timestamp with time zone",
}

#: Values of these types can be equal although they are printed in different ways.
_HASHED = {"interval", "jsonb"}

_DIGITS = re.compile(r"^numeric\(\d+,(-?\d+)\)")
_MOST_DIGITS = 1000
#: Types whose values all have their length.
_PADDED = re.compile(r"^(character|bit)\((\d+)\)(.*)")
_LENGTH = re.compile(r"^(character varying|bit varying)\(\d+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column as the catalog describes it."""

    name: str
    number: int
    #: Changes with its number, type or collation, or the expression that generates it.
    state: str
    #: As `format_type()` prints it, with the schema unless that is pg_catalog.
    type: str
    #: The same without a length.
    plain: str
    #: The type below all domains: a domain may refuse the NULL of an absent image.
    recorded: str
    #: bytes of each value; negative if they differ
    size: int
    nullable: bool
    #: Rows may hold NULL, be it that writes are refused it.
    holds_null: bool
    #: Neither the column nor a domain refuses NULL.
    takes_null: bool
    #: A domain checks its values.
    checked: bool
    default: str | None
    #: '' no, 's' stored, 'v' virtual
    generated: str
    #: '' no, 'a' always, 'd' by default
    identity: str
    #: Set if it is not the collation of the type.
    collation: str | None
    #: IS DISTINCT FROM works on values of this type (not so for json or point).
    comparable: bool
    #: The operator that compares values for equality, if it is not pg_catalog's `=`.
    equality: str | None
    #: Rows can be paired by values of this type.
    pairable: bool
    #: PostgreSQL has a hash of 64 bits for values of this type.
    hashable: bool = True
    #: False if its collation treats different texts as equal.
    deterministic: bool = True
    #: A change of its value changes other rows, by a foreign key's ON UPDATE.
    followed: bool = False

    @property
    def is_built_in(self) -> bool:
        """Whether its type and collation are PostgreSQL's own, which nobody drops."""
        its_own = (self.collation or "").removeprefix("pg_catalog.")
        return "." not in self.recorded + its_own

    @property
    def sql_type(self) -> NativeType:
        """The type, for use in statements."""
        return NativeType(self.type, self.equality)

    @property
    def recorded_type(self) -> NativeType:
        """The type below all domains, for use in statements."""
        return NativeType(self.recorded, self.equality)

    @property
    def staged_type(self) -> NativeType:
        """The type for staged values, which may be too long or too large.

        Only the write refuses such values, when it is known to which row they belong.
        The scale stays: digits are rounded, and no value is refused for them.
        """
        widest = _DIGITS.sub(rf"numeric({_MOST_DIGITS},\1)", self.recorded)
        return NativeType(_LENGTH.sub(r"\1", widest), self.equality)

    def as_large_as(self, other: Column) -> Column:
        """The column, or one that also has room for the values of another.

        Values of all other types are staged without their length anyway.
        """
        if self.recorded == other.recorded:
            return self
        mine, its = _room(self.recorded), _room(other.recorded)
        if mine[0] != its[0] or mine[1] >= its[1]:
            return self
        kind = other.recorded
        return replace(self, type=kind, plain=kind, recorded=kind, size=other.size)

    def same_as(
        self, left: ColumnElement[Any], right: ColumnElement[Any]
    ) -> ColumnElement[bool]:
        """Whether two values are equal by the rules of their type, NULLs included."""
        left, right = self._below_domains(left), self._below_domains(right)
        if not (self.comparable or self.equality):
            left, right = sa.cast(left, Text), sa.cast(right, Text)
        return left.is_not_distinct_from(right)

    def unchanged(
        self, old: ColumnElement[Any], new: ColumnElement[Any]
    ) -> ColumnElement[bool]:
        """Whether a value was left alone: 1.00 equals 1.0, but is a change of it."""
        if self.exact:
            return old.is_not_distinct_from(new)
        old, new = self._below_domains(old), self._below_domains(new)
        return as_record(old).bool_op("*=")(as_record(new))

    def _below_domains(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """A value without its domain, which staged values do not have.

        PostgreSQL compares no records with columns of different types.
        """
        if self.type == self.recorded:
            return value
        return sa.cast(value, self.staged_type)

    def alike(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """A value such that equal ones have one text, by the equality of the column.

        A reference and its key may have several types: of those that can be mixed, the
        text stays what it is.
        """
        kind = self.recorded.partition("(")[0]
        if kind == "numeric":
            return func.trim_scale(value)
        if kind in ("real", "double precision"):  # -0 equals 0
            return value + sa.cast(sa.literal_column("0"), NativeType(kind))
        if kind.rpartition(".")[2] == "citext":
            return func.lower(value)
        its_own = self.equality and self.hashable
        if its_own or kind in _HASHED or not self.deterministic:
            return self._hash(value)
        # As text it has no padding.
        return sa.cast(value, Text) if kind == "character" else value

    def _hash(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """A hash that equal values share; two seeds make chance collisions unlikely."""
        if self.collation is not None:  # a work table's column has none
            value = value.op("COLLATE")(sa.literal_column(self.collation))
        record = func.row(value)
        return func.concat_ws(
            " ",
            func.hash_record_extended(record, sa.literal_column("0")),
            func.hash_record_extended(record, sa.literal_column("1")),
        )

    @property
    def refuses_by_domain(self) -> bool:
        """Whether a domain checks its values, or refuses NULL."""
        return self.checked or (self.type != self.recorded and not self.takes_null)

    @property
    def exact(self) -> bool:
        """Whether equal values of this type are always identical."""
        return self.collation is None and self.type.partition("(")[0] in _EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A primary key, unique constraint or unique index over plain columns."""

    name: str
    columns: tuple[str, ...]
    primary: bool
    deferrable: bool
    #: two NULLs are the same value
    nulls_not_distinct: bool = False
    #: checked at the commit, unless SET CONSTRAINTS asks for it before
    deferred: bool = False

    def same(
        self, held: ColumnElement[Any], wanted: ColumnElement[Any]
    ) -> ColumnElement[bool]:
        """Whether two values are equal for this key; an index can be used for it."""
        if not self.nulls_not_distinct:
            return held == wanted
        return sa.or_(held == wanted, sa.and_(held.is_(None), wanted.is_(None)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """A foreign key; its actions are the catalog's letters (a r c n d)."""

    name: str
    columns: tuple[str, ...]
    parent_schema: str
    parent_table: str
    parent_columns: tuple[str, ...]
    on_delete: str
    on_update: str
    #: the columns that a delete sets to NULL or the default; empty for all
    delete_columns: tuple[str, ...]
    deferrable: bool
    #: Each row has a parent with equal values: not so if the key is NOT VALID, NOT
    #: ENFORCED, or for a PERIOD.
    always: bool
    #: Checked at the commit, unless SET CONSTRAINTS asks for it before.
    deferred: bool = False
    #: The last columns are periods: those of one parent or several cover the row's.
    period: bool = False

    @property
    def parent(self) -> QualifiedName:
        """The table that the key refers to."""
        return QualifiedName(self.parent_schema, self.parent_table)

    @property
    def acts(self) -> bool:
        """Whether it may delete or change rows: CASCADE, SET NULL or SET DEFAULT."""
        return bool({self.on_delete, self.on_update} & {"c", "n", "d"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the user's: columns, unique keys and foreign keys."""

    schema: str
    name: str
    oid: int
    #: r table, p partitioned, v view, f foreign, m materialized
    kind: str
    columns: tuple[Column, ...]
    uniques: tuple[Unique, ...]
    foreign_keys: tuple[ForeignKey, ...]
    #: row-level security applies to what this user reads
    hides_rows: bool = False
    #: policies apply to it, be it only those of publications, or not
    divided: bool = False
    #: a rule by which statements write something else instead, always
    instead: str | None = None

    @property
    def qualified(self) -> QualifiedName:
        """Schema and name."""
        return QualifiedName(self.schema, self.name)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, in its order; empty if there is none."""
        return next((u.columns for u in self.uniques if u.primary), ())

    def tells_apart(self, columns: Collection[str]) -> bool:
        """Whether no two rows can have the same values of these columns, or NULL."""
        unique = any({*one.columns} <= {*columns} for one in self.uniques)
        return unique and not any(self.column(name).holds_null for name in columns)

    def as_large_as(self, other: Table) -> Table:
        """The table with each column `as_large_as` the other's of the same name."""
        there = {column.name: column for column in other.columns}
        columns = tuple(c.as_large_as(there.get(c.name, c)) for c in self.columns)
        alike = all(map(operator.is_, columns, self.columns))
        return self if alike else replace(self, columns=columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def sql(self) -> TableClause:
        """The table for use in SQLAlchemy statements; values pass unchanged."""
        columns: list[sa.ColumnClause[Any]] = [
            sa.column(c.name, c.sql_type) for c in self.columns
        ]
        return sa.table(self.name, *columns, schema=self.schema)


def describe(
    connection: Connection, table: QualifiedName, asked: Later | None = None
) -> Table:
    """Read a table's description from the catalog, or from what was `asked` before.

    Raises:
        UnknownTable: no such table, or it is not visible to this user.
    """
    found = find_table(connection, table, asked)
    if found is None:
        raise UnknownTable(f"There is no table {table}.", table=str(table))
    return found


def describe_all(
    connection: Connection, tables: Sequence[QualifiedName]
) -> list[Table]:
    """As `describe`, of several tables in one round trip.

    Raises:
        UnknownTable.
    """
    asked = [hold(connection, question(connection, table)) for table in tables]
    return [describe(connection, *each) for each in zip(tables, asked, strict=True)]


def question(connection: Connection, table: QualifiedName) -> Bound:
    """What asks for a table's description, or whether the session's still holds."""
    state, _ = known_tables(connection).get(table, (None, None))
    return _described().bound(schema=table.schema, name=table.name, known=state)


def find_table(
    connection: Connection, table: QualifiedName, asked: Later | None = None
) -> Table | None:
    """As `describe`, but None if there is no such table.

    A session keeps it with its hash, by which the database says that it still holds.
    """
    answered = asked or hold(connection, question(connection, table))
    kept = known_tables(connection)
    state, before = kept.get(table, (None, None))
    found = answered.answer().one_or_none()
    if found is None or found.state == state:
        return before if found else None
    if asked and found.columns is None:
        return find_table(connection, table)  # it was known, and is no longer kept
    made = Table(
        schema=table.schema,
        name=table.name,
        oid=found.oid,
        kind=found.kind,
        hides_rows=found.hides_rows,
        divided=found.divided,
        instead=found.instead,
        columns=tuple(Column(**row) for row in _rows(found.columns)),
        uniques=tuple(Unique(**row) for row in _rows(found.uniques)),
        foreign_keys=tuple(ForeignKey(**row) for row in _rows(found.foreign_keys)),
    )
    kept[table] = found.state, made
    return made


def _room(kind: str) -> tuple[str, int]:
    """What kind of values a type has, and how large they may be; 0 for most."""
    if kind in _INTEGERS:
        return "integer", _INTEGERS[kind]
    found = _PADDED.match(kind)
    return (found[1] + found[3], int(found[2])) if found else (kind, 0)


@cache
def _described() -> Prepared:
    parts = {name: load(name) for name in ("columns", "constraints", "foreign_keys")}
    parts["columns"] = parts["columns"].format(state=load("column_state"))
    described = sa.text(load("described").format(**parts))
    return Prepared(described.bindparams(sa.bindparam("known", type_=Text)))


def _rows(found: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [with_tuples(row) for row in found or ()]


def with_tuples(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The values of a row by name, with tuples for arrays, as frozen objects want."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
