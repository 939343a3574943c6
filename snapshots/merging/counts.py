"""Counts the rows of work tables, for all snapshots of a group in one statement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from psycopg import sql
from sqlalchemy import Connection

from sites.names import QualifiedName
from sites.sessions.exchange import Answer, Bound, driver_of, exchange
from snapshots.merging.work import Work


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


_FREE_ROWS = sql.SQL(
    "SELECT {number}, kind, count(*), min(no), max(no) FROM {table}"
    " WHERE NOT held GROUP BY kind"
)


def free_rows(connection: Connection, group: Sequence[Work]) -> Free:
    """The rows of each kind that are not held back, by table."""
    found: dict[QualifiedName, dict[str, Rows]]
    found = {w.staged.table.qualified: {} for w in group}
    tables = [*found]
    for number, kind, count, first, last in _asked(connection, _FREE_ROWS, group):
        found[tables[number]][kind] = Rows(count, range(first, last + 1))
    return found


_OUTCOMES = sql.SQL(
    "SELECT {number}, kind, leaves, held, by, why, count(*) FROM {table}"
    " GROUP BY kind, leaves, held, by, why"
)


def outcomes(connection: Connection, group: Sequence[Work]) -> list[list[Outcome]]:
    """The rows of each snapshot by outcome: kind, whether and why they are held."""
    found: list[list[Outcome]] = [[] for _ in group]
    for number, *outcome in _asked(connection, _OUTCOMES, group):
        found[number].append(Outcome._make(outcome))
    return found


def _asked(connection: Connection, each: sql.SQL, group: Sequence[Work]) -> Answer:
    """Ask for the rows of all work tables.

    Each refresh writes other snapshots of its group, so the session keeps the statement
    of one table alone.
    """
    tables = (
        each.format(
            number=sql.Literal(number), table=sql.Identifier(changes.table.name)
        )
        for number, changes in enumerate(group)
    )
    text = sql.SQL(" UNION ALL ").join(tables).as_bytes(driver_of(connection))
    return exchange(connection, Bound(text, kept=len(group) == 1))[0]
