"""Conditions of a site's snapshots, as a person would write them in a file.

With parameters in place of the values that differ from site to site, where asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from sites.conditions import where
from sites.conditions.printed import Printed, conjuncts
from sites.conditions.subqueries import Subquery
from sites.names import plain
from sites.tables.table import ForeignKey, Table
from snapshots.definitions.errors import SeveralParents
from snapshots.definitions.follow import compose, following, reference
from snapshots.definitions.snapshot import Snapshot
from snaptide.plan.parameters import escaped, literal

_DIGIT = frozenset("0123456789")

#: By name of the parameter, the column that it is compared with, and its value.
Values = Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrased:
    """The rows of a snapshot: the parents that they follow, and a condition."""

    follow: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A literal that a condition compares with a column."""

    column: str
    value: str
    #: where in the condition it stands
    start: int
    end: int
    #: it stands in quotes, and takes its type from where it stands
    quoted: bool


def phrased(
    connection: Connection, table: Table, one: Snapshot, members: Sequence[Snapshot]
) -> Phrased:
    """The condition of a snapshot, with what stands for the parents that it follows.

    Parameters:
        connection: to its master, which says whether both mean the same.
        members: the snapshots of its refresh group.
    """
    if one.condition is None:
        return Phrased()
    followed = [*_followed(table, one, members)]
    rest = [
        part
        for part in conjuncts(one.condition)
        if part not in {ask.text for _, ask in followed}
    ]
    made = Phrased(follow=tuple(name for name, _ in followed), where=_all_of(rest))
    if _means(connection, table, one, members, made):
        return made
    return Phrased(where=one.condition)


def _all_of(parts: Sequence[str]) -> str | None:
    return (
        " AND ".join(f"({p})" for p in parts) if parts[1:] else "".join(parts) or None
    )


def _followed(
    table: Table, one: Snapshot, members: Sequence[Snapshot]
) -> Iterator[tuple[str, Subquery]]:
    """The parents that a condition may follow, as --follow would name them."""
    for ask in one.parts.subqueries:
        pairs = {*zip(ask.columns, ask.key, strict=True)}
        for key in table.foreign_keys:
            same = pairs == {*zip(key.columns, key.parent_columns, strict=True)}
            asked = any(
                ask in following(one, parent)
                for parent in members
                if parent.master == key.parent
            )
            if ask.required and same and asked:
                yield _name(table, key), ask
                break


def _name(table: Table, key: ForeignKey) -> str:
    to_parent = [one for one in table.foreign_keys if one.parent == key.parent]
    name = str(key.parent) if len(to_parent) == 1 else key.name
    return name if reference(table, name) == key else key.name


def _means(
    connection: Connection,
    table: Table,
    one: Snapshot,
    members: Sequence[Snapshot],
    made: Phrased,
) -> bool:
    """Whether what was phrased is the condition of the snapshot."""
    group = one.refresh_group
    try:
        text = compose(table, group, members, made.follow, made.where)
    except SeveralParents:
        return False
    assert text is not None
    return where.canonical(connection, table.qualified, text).text == one.condition


def compared(condition: str) -> Iterator[Compared]:
    """The literals that a printed condition compares with a column by `=`."""
    printed = Printed(condition)
    words = printed.tokens
    for n in range(1, len(words) - 1):
        # PostgreSQL prints a number of another type as (2)::numeric.
        at = n + 2 if words[n + 1] == "(" and words[n + 3 : n + 4] == [")"] else n + 1
        is_part = words[at + 1 : at + 2] == ["."]
        value = None if is_part else _value(words[at])
        column = _column(words, n) if words[n] == "=" else None
        if value is not None and column is not None:
            yield Compared(column, value, *printed.spans[at], words[at][:1] == "'")


def _column(words: Sequence[str], at: int) -> str | None:
    """The column that stands before a token, alone or as text."""
    if words[max(at - 4, 0) : at] == [")", ":", ":", "text"]:
        at -= 4
    name = words[at - 1] if at > 0 else ""
    is_name = name[:1] == '"' or name[:1].isalpha() or name[:1] == "_"
    return plain(name) if is_name else None


def _value(word: str) -> str | None:
    """What a literal stands for; None if it is none, or one with escapes."""
    if word[:1] == "'":
        return word[1:-1].replace("''", "'")
    return word if word[:1] in _DIGIT else None


def templated(
    connection: Connection, table: Table, condition: str, values: Values
) -> str:
    """A condition as a file has it, with `${name}` where it compares a value.

    The value of a parameter is put in as a text, which takes its type from the column.
    A number of another type, as an integer that is compared with a bigint, keeps its
    own: the file would have another condition otherwise.

    Parameters:
        connection: to the master, which says whether both mean the same.
    """
    names = {place: name for name, place in values.items()}
    places = [one for one in compared(condition) if (one.column, one.value) in names]

    def meant(typed: bool) -> str:
        return _replaced(
            condition, places, lambda one: f"{literal(one.value)}{_type(one, typed)}"
        )

    def printed(text: str) -> str:
        return where.canonical(connection, table.qualified, text).text

    typed = bool(places) and printed(meant(False)) != printed(condition)
    return _replaced(
        condition,
        places,
        lambda one: f"${{{names[one.column, one.value]}}}{_type(one, typed)}",
        escaped,
    )


def _type(one: Compared, typed: bool) -> str:
    return "::integer" if typed and not one.quoted else ""


def _replaced(
    condition: str,
    places: Sequence[Compared],
    by: Callable[[Compared], str],
    between: Callable[[str], str] = str,
) -> str:
    """A condition with other texts in some places."""
    pieces, last = [], 0
    for one in places:
        pieces += [between(condition[last : one.start]), by(one)]
        last = one.end
    return "".join([*pieces, between(condition[last:])])
