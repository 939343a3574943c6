"""Random conditions: trees of AND, OR, NOT, EXISTS, IN and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from random import Random

from tests.oracle.conditions.schema import Reference, Schema, Table, same

#: Expressions over the row of a table, which stands as {0}; v, w and t may be NULL.
LEAVES = (
    *("{0}.v = 1", "{0}.v = 2", "{0}.v <> 0", "{0}.v IN (0, 2)", "{0}.v IN (1, 2, 3)"),
    *("{0}.w = 1", "{0}.w < 2", "{0}.v > {0}.w", "{0}.v IS DISTINCT FROM {0}.w"),
    *("{0}.v IS NULL", "{0}.w IS NOT NULL", "coalesce({0}.v, 1) < 2", "{0}.v = {0}.w"),
    *("{0}.t = 'x'", "{0}.t LIKE 'x%'", "({0}.v = 1) IS NOT TRUE", "NOT {0}.v = 3"),
    "{0}.note LIKE '%1'",
)
#: How deep a tree of AND, OR and NOT is.
DEPTH = 3
#: How many subqueries may stand within each other.
NESTED = 3


@dataclass(slots=True)
class Writer:
    """Writes a condition, and notes what it asks.

    Parameters:
        chance: draws the condition.
        parents: by table, the conditions that snapshots of it have at the site: what
            they have of it may be asked.
    """

    schema: Schema
    chance: Random
    parents: Mapping[str, str]
    #: by table, what those conditions ask
    within: Mapping[str, Set[str]]
    #: tables that subqueries of it read
    asks: set[str] = field(default_factory=set)
    #: what is worth counting
    met: set[str] = field(default_factory=set)
    _aliases: int = 0

    def tree(self, name: str) -> str:
        """A condition on the rows of a table, which may ask others."""
        return self._tree(self.schema[name], name, DEPTH, (), 0)

    def leaf(self, name: str) -> str:
        """A condition on the row alone."""
        return self.chance.choice(LEAVES).format(name)

    def _tree(
        self, table: Table, alias: str, depth: int, above: tuple[str, ...], nested: int
    ) -> str:
        drawn = self.chance.random() if depth else 0.5 + self.chance.random() / 2
        if drawn < 0.4:
            word = "AND" if drawn < 0.18 else "OR"
            below = (*above, word)
            parts = [self._tree(table, alias, depth - 1, below, nested) for _ in "12"]
            return f"({parts[0]} {word} {parts[1]})"
        if drawn < 0.5:
            below = (*above, "NOT")
            return f"NOT ({self._tree(table, alias, depth - 1, below, nested)})"
        if table.references and nested < NESTED and drawn < 0.88:
            return self._subquery(table, alias, depth, above, nested + 1)
        return self.leaf(alias)

    def _subquery(
        self, table: Table, alias: str, depth: int, above: tuple[str, ...], nested: int
    ) -> str:
        one = self.chance.choice(table.references)
        target, known = self.schema[one.target], self.parents.get(one.target)
        self._aliases += 1
        inner = f"q{self._aliases}"
        self._note(one, above, nested)
        parts = []
        if known and alias != one.target and self.chance.random() < 0.5:
            inner = one.target  # as it is called in its own condition
            parts.append(f"({known})")
            self.asks |= self.within[one.target]
        if self.chance.random() < (0.3 if parts else 0.85):
            parts.append(
                f"({self._tree(target, inner, max(0, depth - 1), (), nested)})"
            )
        rest = " AND ".join(parts)
        if "NOT" not in above and self.chance.random() < 0.35:
            return self._in(one, alias, inner, rest)
        return self._exists(one, alias, inner, rest)

    def _exists(self, one: Reference, alias: str, inner: str, rest: str) -> str:
        pair = same(inner, one.keyed, alias, one.columns)
        if self.chance.random() < 0.3:
            pair = same(alias, one.columns, inner, one.keyed)
        parts = [pair, *([rest] if rest else [])]
        if self.chance.random() < 0.3:
            parts.reverse()
        chosen = self.chance.choice(("", "1 ", f"{inner}.note "))
        where = " AND ".join(parts)
        return f"EXISTS (SELECT {chosen}FROM {one.target} {inner} WHERE {where})"

    def _in(self, one: Reference, alias: str, inner: str, rest: str) -> str:
        self.met.add("IN")
        mine = ", ".join(f"{alias}.{column}" for column in one.columns)
        mine = f"({mine})" if len(one.columns) > 1 else mine
        theirs = ", ".join(f"{inner}.{column}" for column in one.keyed)
        where = f" WHERE {rest}" if rest else ""
        return f"{mine} IN (SELECT {theirs} FROM {one.target} {inner}{where})"

    def _note(self, one: Reference, above: tuple[str, ...], nested: int) -> None:
        self.asks.add(one.target)
        self.met |= {f"{word} above EXISTS" for word in above}
        if nested > 1:
            self.met.add(f"nested {nested}")
        if one.to_itself:
            self.met.add("self-join")
        if len(one.columns) > 1:
            self.met.add("composite key asked")
        if one.actions is None:
            self.met.add("no foreign key asked")


SHAPES = frozenset(
    {
        *("AND above EXISTS", "OR above EXISTS", "NOT above EXISTS", "IN", "self-join"),
        *("nested 2", "nested 3", "composite key asked", "no foreign key asked"),
    }
)
