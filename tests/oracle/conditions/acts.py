"""What the users of a history do to its rows, several statements in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from psycopg import sql

from tests.oracle.conditions.schema import Key, Reference, Schema, Table

Statement = sql.Composed
Row = dict[str, Any]
#: The keys that users of a history give, by number.
KEYS = 9


@dataclass(slots=True)
class Pen:
    """Writes statements about the rows of one history.

    Parameters:
        chance: draws what happens in it; nothing else may be drawn from it.
    """

    history: int
    chance: Random
    schema: Schema
    #: the rows that whoever writes has before him, by table
    rows: dict[str, list[Row]] = field(default_factory=dict)
    #: the tables that he may write
    tables: Sequence[str] = ()
    #: what the statements of the last transaction are
    met: set[str] = field(default_factory=set)
    _given: int = 0

    def statements(self) -> list[Statement]:
        """A transaction."""
        self.met = set()
        acts = [*ACTS]
        weights = [weight for weight, _ in ACTS.values()]
        found: list[Statement] = []
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            [name] = self.chance.choices(acts, weights)
            found += ACTS[name][1](self)
            self.met.add(name)
        return found

    def new(self, table: Table, number: int, *, later: bool = False) -> Row:
        """A new row of a table."""
        row: Row = dict(zip(table.key, table.given(self.history, number), strict=True))
        if later:
            given = table.given(self.history, number, later=True)
            row = dict(zip(table.key, given, strict=True))
        row |= {"h": self.history, **self.values(), "note": self.token()}
        for one in table.references:
            row |= self.refer(one)
        return row

    def values(self) -> Row:
        """Values that conditions ask for."""
        return {
            "v": self.chance.choice((0, 1, 1, 2, 2, 3, None)),
            "w": self.chance.choice((0, 1, 2, None)),
            "t": self.chance.choice(("x", "y", None)),
        }

    def token(self) -> str:
        """A value that nobody has written."""
        self._given += 1
        return f"{self.history}.{self._given}"

    def refer(self, one: Reference) -> Row:
        """Values of a reference: NULL, a row that is there, or one that may not be."""
        drawn, target = self.chance.random(), self.schema[one.target]
        there = self.rows.get(one.target, ())
        if one.nullable and (drawn < 0.12 or (one.to_itself and not there)):
            return dict.fromkeys(one.columns)
        guessed = one.actions is None and drawn < 0.35
        guess = self.chance.randrange(KEYS)
        key: Key = target.given(self.history, guess, later=self.chance.random() < 0.3)
        if there and not guessed:
            chosen = self.chance.choice(there)
            key = tuple(chosen[column] for column in target.key)
        return dict(zip(one.columns, key, strict=True))

    def table(self) -> Table:
        """A table that may be written."""
        return self.schema[self.chance.choice(self.tables)]

    def row(self, table: Table) -> Row | None:
        """A row of a table, if there is one."""
        there = self.rows.get(table.name)
        return self.chance.choice(there) if there else None

    def number(self, table: Table) -> int:
        """The number of a key, most often of one that no row has."""
        taken = {self.key(table, row) for row in self.rows.get(table.name, ())}
        free = [n for n in range(KEYS) if table.given(self.history, n) not in taken]
        drawn, other = self.chance.random(), self.chance.randrange(KEYS)
        return self.chance.choice(free) if free and drawn < 0.95 else other

    def key(self, table: Table, row: Row) -> Key:
        """The key of a row."""
        return tuple(row[column] for column in table.key)


def insert(table: str, values: Mapping[str, object]) -> Statement:
    """INSERT of one row."""
    return sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, values)),
        sql.SQL(", ").join(map(sql.Literal, values.values())),
    )


def _update(table: Table, row: Row, values: Row) -> Statement:
    """UPDATE of one row, which has the values from now on."""
    made = sql.SQL("UPDATE {} SET {} WHERE {}").format(
        sql.Identifier(table.name), _equal(values, ", "), _named(table, row)
    )
    row |= values
    return made


def _named(table: Table, row: Row) -> Statement:
    return _equal({column: row[column] for column in table.key}, " AND ")


def _equal(values: Row, between: str) -> Statement:
    pairs = (
        sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(value))
        for column, value in values.items()
    )
    return sql.SQL(between).join(pairs)


def _inserted(pen: Pen, table: Table) -> list[Statement]:
    row = pen.new(table, pen.number(table))
    pen.rows.setdefault(table.name, []).append(row)
    return [insert(table.name, row)]


def _insert(pen: Pen) -> list[Statement]:
    return _inserted(pen, pen.table())


def _family(pen: Pen) -> list[Statement]:
    """A row, and others below it, down to the last level."""
    first = pen.table()
    found, named = _inserted(pen, first), first.name
    for name in pen.tables:
        table = pen.schema[name]
        if any(one.target == named and not one.to_itself for one in table.references):
            usual = pen.rows.get(named, [])
            pen.rows[named] = usual[-1:]
            found += _inserted(pen, table)
            pen.rows[named] = usual
            named = name
    return found


def _values(pen: Pen) -> list[Statement]:
    # Rows that others ask are changed more often than others.
    table = min(pen.table(), pen.table(), key=lambda one: pen.tables.index(one.name))
    row = pen.row(table)
    if row is None:
        return _inserted(pen, table)
    given = pen.values()
    chosen = pen.chance.choice((("v",), ("v",), ("w",), ("v", "t")))
    return [_update(table, row, {column: given[column] for column in chosen})]


def _note(pen: Pen) -> list[Statement]:
    table = pen.table()
    row = pen.row(table)
    return [_update(table, row, {"note": pen.token()})] if row else []


def _reference(pen: Pen) -> list[Statement]:
    table = pen.table()
    row = pen.row(table)
    if row is None or not table.references:
        return _values(pen)
    return [_update(table, row, pen.refer(pen.chance.choice(table.references)))]


def _key(pen: Pen) -> list[Statement]:
    table = pen.table()
    row = pen.row(table)
    if row is None:
        return []
    given = table.given(pen.history, pen.number(table))
    return [_update(table, row, dict(zip(table.key, given, strict=True)))]


def _delete(pen: Pen) -> list[Statement]:
    table = pen.table()
    row = pen.row(table)
    if row is None:
        return []
    pen.rows[table.name].remove(row)
    return [
        sql.SQL("DELETE FROM {} WHERE {}").format(
            sql.Identifier(table.name), _named(table, row)
        )
    ]


#: By name, how often something is done, and what.
ACTS: dict[str, tuple[int, Callable[[Pen], list[Statement]]]] = {
    "insert": (4, _insert),
    "family": (2, _family),
    "values": (6, _values),
    "note": (2, _note),
    "reference": (3, _reference),
    "key": (1, _key),
    "delete": (2, _delete),
}


def first(pen: Pen) -> list[Statement]:
    """The rows that a history begins with, at the master."""
    pen.rows, found = {}, []
    for table in pen.schema.tables:
        for number in range(3 if table.name == "a" else 5):
            row = pen.new(table, number)
            pen.rows.setdefault(table.name, []).append(row)
            found.append(insert(table.name, row))
        if table.partitioned:
            row = pen.new(table, 0, later=True)
            found.append(insert(f"{table.name}_later", row))
    return found
