"""Subqueries in conditions: which other tables decide whether a row belongs.

PostgreSQL prints an expression in one regular form: fully in parentheses, its keywords
in upper case, every name below the top with its table. This module reads that form,
and only that (`sites.conditions.printed`). A subquery may stand in EXISTS or IN, under
AND, OR and NOT to any depth. It reads one table, and finds at most one row there: by
its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sites.conditions.printed import Printed, column_of, divided
from sites.names import QualifiedName, parse, plain, quoted

#: A column, the one of another table that equals it, and whether both as text.
Pair = tuple[str, str, bool]

#: How parts of an expression are put together: a word and the parts, or a text.
Shape = tuple["str | Shape", ...] | str

#: Words that begin a part of a query after its condition.
_AFTER_WHERE = {
    *("GROUP", "HAVING", "WINDOW", "UNION", "INTERSECT", "EXCEPT"),
    *("ORDER", "LIMIT", "OFFSET", "FETCH", "FOR"),
}

_NOTHING: frozenset[str] = frozenset()


class Unreadable(ValueError):
    """A subquery of another form than the ones that can be kept up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subquery:
    """A row of another table that a row looks for by its key.

    It finds it with EXISTS (SELECT FROM parent WHERE parent.key = row.column AND ...)
    or with column IN (SELECT key FROM parent WHERE ...).
    """

    table: QualifiedName
    #: the name of the table within the condition
    alias: str
    #: the subquery as PostgreSQL prints it, about a row of the table around it
    text: str = field(repr=False)
    #: the columns of the row, and the columns of the table that are to equal them
    columns: tuple[str, ...]
    key: tuple[str, ...]
    #: whether they are compared as text, as PostgreSQL prints it for varchar
    as_text: tuple[bool, ...]
    #: what the rest of the condition asks of the row that is found
    leaves: tuple[str, ...]
    subqueries: tuple[Subquery, ...]
    #: every column of the table that it looks at
    uses: frozenset[str]
    #: the row belongs only if this subquery finds a row: only AND stands above it
    required: bool
    #: the condition on the row that is found, as a condition of its own has it
    shape: Shape = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a condition that depend on one row each."""

    #: expressions over the row itself
    leaves: tuple[str, ...]
    subqueries: tuple[Subquery, ...]
    #: the same for conditions that ask the same, whatever they call their tables
    shape: Shape = field(repr=False)

    def every(self) -> Iterator[Subquery]:
        """All subqueries, each before those within it."""
        waiting = [*self.subqueries]
        while waiting:
            one = waiting.pop(0)
            yield one
            waiting += one.subqueries


NONE = Parts(leaves=(), subqueries=(), shape=())


@lru_cache(maxsize=1024)
def parts(condition: str | None, table: QualifiedName) -> Parts:
    """Divide a condition, as PostgreSQL prints it, into the parts of each row.

    Parameters:
        condition: the text after WHERE; None for a snapshot of all rows.
        table: the table that the condition is for.

    Raises:
        Unreadable: a subquery has another form; the message says what to write.
    """
    if condition is None:
        return NONE
    reader = _Reader(condition)
    scope = _Scope(alias=table.name)
    shape = reader.expression(0, len(reader.tokens), scope)
    return Parts(
        leaves=tuple(scope.leaves), subqueries=tuple(scope.subqueries), shape=shape
    )


def refuse_whole_row(condition: str, table: QualifiedName) -> None:
    """Raises Unreadable if a column that the table gets later changes its value."""
    reader = _Reader(condition)
    if "*" in reader.uses(0, len(reader.tokens), table.name):
        raise Unreadable(f"name the columns of {table.name} instead of {table.name}.*")


def one_line(condition: str) -> str:
    """A printed condition without line breaks, and without what EXISTS selects."""
    reader = _Reader(condition)
    left_out: set[int] = set()
    for n, word in enumerate(reader.tokens):
        if word == "EXISTS" and reader.is_subselect(n + 1):
            left_out |= reader.selected(n + 2)
    return reader.joined(n for n in range(len(reader.tokens)) if n not in left_out)


def renamed(condition: str, tables: Mapping[QualifiedName, QualifiedName]) -> str:
    """The same condition over other tables, under the names that these had in it.

    Parameters:
        tables: the table to read instead of each table of a subquery.
    """
    reader = _Reader(condition)
    pieces, last = [], 0
    for start, end in reader.sources():
        table, alias = reader.source(start, end)
        other = tables[table]
        first, until = reader.spans[start][0], reader.spans[end - 1][1]
        named = ".".join(map(quoted, (other.schema, other.name)))
        pieces += [condition[last:first], f"{named} {quoted(alias)}"]
        last = until
    return "".join([*pieces, condition[last:]])


@dataclass(slots=True)
class _Scope:
    """What has been read about one row."""

    alias: str
    outer: _Scope | None = None
    leaves: list[str] = field(default_factory=list)
    subqueries: list[Subquery] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)


class _Reader(Printed):
    """Reads the subqueries of one printed condition, by the numbers of its tokens."""

    def find_from(self, select: int) -> int:
        """The place of the FROM of a SELECT."""
        for n in self.top(select + 1, self.inside(select)):
            if self.tokens[n] == "FROM":
                return n
        raise Unreadable("a subquery must read a table")

    def selected(self, select: int) -> set[int]:
        """The places of what a SELECT within EXISTS selects, which does not matter.

        Raises:
            Unreadable: it might decide whether there is a row, as count(*) does.
        """
        places = range(select + 1, self.find_from(select))
        if "(" in self.tokens[places.start : places.stop]:
            raise Unreadable("write EXISTS (SELECT FROM ...), without expressions")
        return {*places}

    def inside(self, select: int) -> int:
        """The place of the parenthesis that ends a SELECT in parentheses."""
        return self.ends[select - 1] - 1

    def sources(self) -> Iterator[tuple[int, int]]:
        """The places of each table that a subquery reads, with its alias."""
        for n, word in enumerate(self.tokens):
            if word == "SELECT":
                start = self.find_from(n) + 1
                yield start, self._source_end(start, self.inside(n))

    def _source_end(self, start: int, end: int) -> int:
        for n in self.top(start, end):
            if self.tokens[n] == "WHERE":
                return n
        return end

    def source(self, start: int, end: int) -> tuple[QualifiedName, str]:
        """The table of a subquery, and its name within the condition."""
        words = self.tokens[start:end]
        alone = len(words) in (3, 4) and words[1] == "."
        if not alone or {"(", ")", ",", "*"} & {*words}:
            raise Unreadable(
                f"a subquery must read one table, not {self.slice(start, end)}; nest "
                "EXISTS instead of joining"
            )
        table = parse("".join(words[:3]))
        return table, plain(words[3]) if len(words) == 4 else table.name

    def expression(
        self, start: int, end: int, scope: _Scope, *, under: frozenset[str] = _NOTHING
    ) -> Shape:
        """Read a boolean expression about the row of a scope.

        Parameters:
            under: the words of AND, OR and NOT that it stands under.
        """
        while self.ends.get(start) == end and self.tokens[start] == "(":
            if self.tokens[start + 1] == "SELECT":
                raise self._misplaced()
            start, end = start + 1, end - 1
        for word in ("OR", "AND"):
            if pieces := self._split(start, end, word):
                below = under | {word}
                every = [self.expression(*one, scope, under=below) for one in pieces]
                return _joined(word, every)
        if self.tokens[start] == "NOT":
            inner = self.expression(start + 1, end, scope, under=under | {"NOT"})
            return ("NOT", inner)
        if "SELECT" not in self.tokens[start:end]:
            return self._leaf(start, end, scope, under)
        if self.tokens[start] != "EXISTS":
            return self._in(start, end, scope, under)
        if not self.is_subselect(start + 1) or self.ends[start + 1] != end:
            raise self._misplaced()
        return self._subquery(start + 2, scope, (), under, self.slice(start, end))

    def _split(self, start: int, end: int, word: str) -> list[tuple[int, int]]:
        """The stretches between the places of a word; none if it is not there."""
        cuts = [n for n in self.top(start, end) if self.tokens[n] == word]
        ends = [*cuts, end]
        starts = [start, *(n + 1 for n in cuts)]
        return [*zip(starts, ends, strict=True)] if cuts else []

    def _leaf(
        self, start: int, end: int, scope: _Scope, under: frozenset[str]
    ) -> Shape:
        pair = self._pair(start, end, scope)
        if pair is None:
            scope.leaves.append(self.slice(start, end))
            return self._bare(start, end, scope.alias)
        if under <= {"AND"}:
            scope.pairs.append(pair)
            return ()
        raise Unreadable(
            f"{self.slice(start, end)} must stand under AND alone: it says which row a "
            "subquery looks for"
        )

    def _bare(self, start: int, end: int, alias: str) -> str:
        """The text of tokens, without the name of the table before its columns."""
        named = {
            n
            for n in range(start, end - 1)
            if self.is_table(n) and plain(self.tokens[n]) == alias
        }
        left_out = named | {n + 1 for n in named}
        return " ".join(self.tokens[n] for n in range(start, end) if n not in left_out)

    def _pair(self, start: int, end: int, scope: _Scope) -> Pair | None:
        """The columns of outer and inner row that an expression compares, if it does.

        Raises:
            Unreadable: it compares them otherwise than with `=`.
        """
        if scope.outer is None:
            return None
        looked_at = {
            plain(self.tokens[n]) for n in range(start, end) if self.is_table(n)
        }
        if scope.outer.alias not in looked_at:
            return None
        sides = [column_of(side) for side in divided(self.tokens[start:end], "=")]
        by_table = {side[0]: side for side in sides if side is not None}
        if len(sides) != 2 or by_table.keys() != {scope.alias, scope.outer.alias}:
            raise Unreadable(
                f"{self.slice(start, end)} must be the equality of a column of "
                f"{scope.alias} and a column of {scope.outer.alias}"
            )
        (_, mine, cast), (_, theirs, other_cast) = (
            by_table[name] for name in (scope.outer.alias, scope.alias)
        )
        return mine, theirs, cast or other_cast

    def _in(self, start: int, end: int, scope: _Scope, under: frozenset[str]) -> Shape:
        at = [n for n in self.top(start, end) if self.tokens[n] == "IN"]
        if not at or not self.is_subselect(at[0] + 1) or self.ends[at[0] + 1] != end:
            raise self._misplaced()
        if "NOT" in under:
            raise Unreadable(
                "NOT IN (SELECT ...) is true for no row if one value is NULL; write "
                "NOT EXISTS"
            )
        mine = self._columns(start, at[0], scope)
        return self._subquery(at[0] + 2, scope, mine, under, self.slice(start, end))

    def _columns(self, start: int, end: int, scope: _Scope) -> list[tuple[str, bool]]:
        """The columns of a scope's row that a list names, and whether as text."""
        if self.ends.get(start) == end:
            start, end = start + 1, end - 1
        found = []
        for item in divided(self.tokens[start:end], ","):
            one = column_of(item)
            # Only at the top do columns stand without their table.
            here = {scope.alias} if scope.outer else {scope.alias, ""}
            if one is None or one[0] not in here:
                raise Unreadable(
                    f"{''.join(item)} must be a column of {scope.alias}: a row is "
                    "found by the values of columns"
                )
            found.append(one[1:])
        return found

    def _subquery(
        self,
        select: int,
        scope: _Scope,
        mine: Sequence[tuple[str, bool]],
        under: frozenset[str],
        text: str,
    ) -> Shape:
        end, start = self.inside(select), self.find_from(select) + 1
        source_end = self._source_end(start, end)
        table, alias = self.source(start, source_end)
        inner = _Scope(alias=alias, outer=scope)
        if mine:
            theirs = self._columns(select + 1, start - 1, inner)
            inner.pairs += [
                (column, key, cast or other_cast)
                for (column, cast), (key, other_cast) in zip(mine, theirs, strict=True)
            ]
        shape: Shape = ()
        if source_end < end:
            self._refuse_more(source_end + 1, end)
            shape = self.expression(source_end + 1, end, inner)
        if not inner.pairs:
            raise Unreadable(
                f"the subquery of {table} must find its row by the key: compare it "
                f"with columns of {scope.alias}"
            )
        uses = self.uses(start, end, alias)
        if "*" in uses:
            raise Unreadable(f"name the columns of {alias} instead of {alias}.*")
        columns, key, as_text = zip(*sorted(inner.pairs), strict=True)
        found = Subquery(
            table=table,
            alias=alias,
            text=text,
            columns=columns,
            key=key,
            as_text=as_text,
            leaves=tuple(inner.leaves),
            subqueries=tuple(inner.subqueries),
            uses=frozenset(key) | uses,
            required=under <= {"AND"},
            shape=shape,
        )
        scope.subqueries.append(found)
        return ("EXISTS", str(table), columns, key, shape)

    def _refuse_more(self, start: int, end: int) -> None:
        """Refuse a subquery with more after WHERE than a condition."""
        for n in self.top(start, end):
            if self.tokens[n] in _AFTER_WHERE:
                raise Unreadable(f"leave out {self.tokens[n]} in a subquery")

    def uses(self, start: int, end: int, alias: str) -> frozenset[str]:
        return frozenset(
            plain(self.tokens[n + 2])
            for n in range(start, end)
            if self.is_table(n) and plain(self.tokens[n]) == alias
        )

    def _misplaced(self) -> Unreadable:
        return Unreadable(
            "a subquery may stand in EXISTS (SELECT ...) or IN (SELECT ...), without "
            "WITH, under AND, OR and NOT"
        )


def _joined(word: str, parts: Sequence[Shape]) -> Shape:
    """AND or OR of parts, without those that are no condition of their own."""
    flat: list[str | Shape] = []
    for one in parts:
        if isinstance(one, tuple) and one[:1] == (word,):
            flat += one[1:]
        elif one:
            flat.append(one)
    return (word, *flat) if len(flat) > 1 else flat[0] if flat else ()
