"""What users did: the rows of a history before and after each of their transactions.

A row is known by its token `uid`, which it keeps for life; a reference is known by the
token of the row that it leads to. So a change of a key changes one column of one row,
and a reference that leads to another row than it did is seen as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: A row by its columns, and where it is: table and token.
Row = Mapping[str, Any]
Place = tuple[str, str]
Rows = dict[Place, Row]

#: By table, each column that refers to a row: the table and column that it names.
References = Mapping[str, Mapping[str, tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one row."""

    before: Row | None
    after: Row | None

    @property
    def columns(self) -> set[str]:
        """Those that have another value now, where the row was there and is."""
        if self.before is None or self.after is None:
            return set()
        return {c for c in self.after if self.after[c] != self.before.get(c)}

    def renamed(self, now: Mapping[str, str | None]) -> Change:
        """The same change, of columns that are called otherwise; None are left out."""
        before, after = (
            row
            and {
                called: value
                for name, value in row.items()
                if (called := now.get(name, name)) is not None
            }
            for row in (self.before, self.after)
        )
        return Change(before, after)


Effect = dict[Place, Change]


@dataclass(slots=True)
class Deed:
    """A transaction that a user has committed."""

    receipt: str
    site: str
    history: int
    transaction: str
    effect: Effect
    #: values that an operator has put in the place of others: place, column
    edited: set[tuple[Place, str]] = field(default_factory=set)
    #: an operator has given it up, or what was parked of it
    given_up: bool = False


#: Ends the name of a place that is kept for another row with the same token.
TWIN = " (twin)"


def twin(place: Place) -> Place:
    """The place of another row with the token of the one here.

    Who edits the change of a row that is gone has it come again.
    """
    return place[0], f"{place[1]}{TWIN}"


def placed(rows: Iterable[tuple[str, Row]]) -> Rows:
    """Rows of tables, by table and token."""
    found: Rows = {}
    for table, row in sorted(rows, key=lambda one: (one[0], one[1]["id"])):
        place = table, str(row["uid"])
        found[twin(place) if place in found else place] = row
    return found


def resolved(rows: Rows, references: References) -> Rows:
    """The rows with references by token; what is not among them stays a value."""
    known = {
        (table, column, row[column]): row["uid"]
        for (table, _), row in rows.items()
        for table_, column in _targets(references)
        if table_ == table and column in row
    }
    found: Rows = {}
    for (table, uid), row in rows.items():
        named = {
            column: f"row {known[*target, row[column]]}"
            for column, target in references.get(table, {}).items()
            if (*target, row.get(column)) in known
        }
        found[table, uid] = {**row, **named}
    return found


def difference(before: Rows, after: Rows) -> Effect:
    """What has changed.

    Of two rows with one token that both change, or of which one comes or goes, nobody
    can tell which is which: they are compared as they are placed, the first one alone.
    """
    found: Effect = {}
    for place in {**before, **after}:
        if place[1].endswith(TWIN):
            continue
        change = _of_twins(before, after, place) or Change(
            before.get(place), after.get(place)
        )
        if change.before != change.after:
            found[place] = change
    return found


def _of_twins(before: Rows, after: Rows, place: Place) -> Change | None:
    """The change of one of two rows with a token, if the other one is as it was."""
    places = place, twin(place)
    if not all(one in rows for rows in (before, after) for one in places):
        return None
    was, is_ = [before[one] for one in places], [after[one] for one in places]
    same = next((row for row in was if row in is_), None)
    if same is None:
        return None
    was.remove(same)
    is_.remove(same)
    return Change(was[0], is_[0])


def composed(effects: Iterable[Effect]) -> Effect:
    """What several changes, one after the other, come to."""
    whole: Effect = {}
    for effect in effects:
        for place, change in effect.items():
            first = whole[place].before if place in whole else change.before
            whole[place] = Change(first, change.after)
    return {p: c for p, c in whole.items() if c.before != c.after}


def _targets(references: References) -> set[tuple[str, str]]:
    return {t for columns in references.values() for t in columns.values()}
