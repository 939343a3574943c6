"""Counts the rows of work tables, for all snapshots of a group in one statement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, TableClause, func, select

from sites.names import QualifiedName
from sites.sessions.prepared import Prepared
from sites.transfer.types import NativeType
from snapshots.merging.work import MARKS, Work


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a work table: how many, and between which numbers."""

    count: int
    numbers: range

    @property
    def free(self) -> Mapping[str, object]:
        """The values by which a statement selects those that are not held back."""
        return {"held": False, "no": self.numbers}

    @classmethod
    def numbered(cls, numbers: Sequence[int]) -> Rows:
        """Rows of these numbers, in order; no other row of the step is in between."""
        return cls(len(numbers), range(numbers[0], numbers[-1] + 1))

    @classmethod
    def all_of(cls, parts: Collection[Rows]) -> Rows:
        """The rows of all parts."""
        ends = [(part.numbers.start, part.numbers.stop) for part in parts]
        span = range(min(a for a, _ in ends), max(b for _, b in ends))
        return cls(sum(part.count for part in parts), span)


#: By table and kind, the rows that are not held back.
Free: TypeAlias = Mapping[QualifiedName, Mapping[str, Rows]]


class Outcome(NamedTuple):
    """The outcome for some rows of a work table."""

    kind: str
    #: the master still has them, but they no longer belong to the snapshot
    leaves: bool
    held: bool
    #: what holds them back
    by: str | None
    #: the site's message, if it refused them
    why: str | None
    rows: int


def free_rows(connection: Connection, group: Sequence[Work]) -> Free:
    """The rows of each kind that are not held back, by table."""
    found: dict[QualifiedName, dict[str, Rows]]
    found = {w.staged.table.qualified: {} for w in group}
    tables, names = [*found], tuple(w.table.name for w in group)
    for number, kind, count, first, last in _free_rows(names).run(connection):
        found[tables[number]][kind] = Rows(count, range(first, last + 1))
    return found


@lru_cache(maxsize=128)
def _free_rows(names: tuple[str, ...]) -> Prepared:
    """Asks for these of some work tables. Building it takes longer than running it."""
    each = (
        select(
            sa.literal_column(str(number)),
            table.c.kind,
            func.count(),
            func.min(table.c.no),
            func.max(table.c.no),
        )
        .where(sa.not_(table.c.held))
        .group_by(table.c.kind)
        for number, table in enumerate(_marks(names))
    )
    return Prepared(sa.union_all(*each))


def outcomes(connection: Connection, group: Sequence[Work]) -> list[list[Outcome]]:
    """The rows of each snapshot by outcome: kind, whether and why they are held."""
    found: list[list[Outcome]] = [[] for _ in group]
    names = tuple(w.table.name for w in group)
    for number, *outcome in _outcomes(names).run(connection):
        found[number].append(Outcome._make(outcome))
    return found


@lru_cache(maxsize=128)
def _outcomes(names: tuple[str, ...]) -> Prepared:
    """Asks for these of some work tables. Building it takes longer than running it."""
    marks = (
        (number, [table.c[name] for name in ("kind", "leaves", "held", "by", "why")])
        for number, table in enumerate(_marks(names))
    )
    each = (
        select(sa.literal_column(str(number)), *of, func.count()).group_by(*of)
        for number, of in marks
    )
    return Prepared(sa.union_all(*each))


def _marks(names: Sequence[str]) -> list[TableClause]:
    """Work tables, with the columns that all of them have."""
    return [
        sa.table(name, *(sa.column(one.name, NativeType(one.type)) for one in MARKS))
        for name in names
    ]
