"""Counts rows that differ exactly, lists some of them, and reads their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Select, Text, case, cast, func, literal, select

from sites.extras import pa
from snapshots.check.report import AnyKind, AnyReason, Count
from snapshots.differences.images import Layout
from snapshots.keys import Side

#: Longer values are cut in reports, with a mark that says how long they are.
LONGEST = 200

#: A key as texts.
Key = tuple[str | None, ...]
#: The values of a row as texts, by their columns.
Row = Mapping[str, str | None]

_Listed = TypeVar("_Listed")


class Tally(Generic[AnyKind, AnyReason, _Listed]):
    """How many rows differ, and the first of them."""

    def __init__(
        self, kinds: type[AnyKind], reasons: type[AnyReason], most: int
    ) -> None:
        """Begin to count.

        Parameters:
            reasons: the last of them is that there is none.
            most: how many rows are listed.
        """
        self._kinds, self._reasons, self._most = kinds, [*reasons], most
        self._counts: Counter[tuple[AnyKind, AnyReason]] = Counter()
        self._unexplained: list[_Listed] = []
        self._others: list[_Listed] = []

    def add(self, kind: AnyKind, reason: AnyReason, row: _Listed) -> None:
        """Count a row, and list it if there is room."""
        self._counts[kind, reason] += 1
        unexplained = reason is self._reasons[-1]
        place = self._unexplained if unexplained else self._others
        if len(place) < self._most:
            place.append(row)

    def counts(self) -> tuple[Count[AnyKind, AnyReason], ...]:
        """How many rows differ in each way for each reason; unexplained ones first."""
        return counts(self._counts, self._kinds, reversed(self._reasons))

    def listed(self) -> list[_Listed]:
        """Rows up to the maximum; unexplained ones first."""
        return (self._unexplained + self._others)[: self._most]


def counts(
    by: Counter[tuple[AnyKind, AnyReason]],
    kinds: type[AnyKind],
    reasons: Iterable[AnyReason],
) -> tuple[Count[AnyKind, AnyReason], ...]:
    """Counts in the order of the reasons, and for each in that of the kinds."""
    return tuple(
        Count(kind=kind, reason=reason, rows=by[kind, reason])
        for reason in reasons
        for kind in kinds
        if by[kind, reason]
    )


def values(side: Side, query: Select[Any], layout: Layout) -> dict[Key, Row]:
    """The rows of a query by their keys, with values as texts that are not too long."""
    rows, parts = query.subquery("images"), len(layout.key)
    columns: list[Any] = [
        cast(rows.c[place], Text).label(f"k{n}") for n, place in enumerate(layout.key)
    ]
    columns += [
        short(cast(rows.c[place], Text)).label(place) for place in layout.columns
    ]
    texts = pa.schema([(column.name, pa.string()) for column in columns])
    found = side.read(select(*columns), texts, many=False)
    return {
        row[:parts]: dict(zip(layout.columns, row[parts:], strict=True))
        for row in zip(*(c.to_pylist() for c in found.columns), strict=True)
    }


def short(text: ColumnElement[Any]) -> ColumnElement[Any]:
    """A text for reports, cut if it is long."""
    length = func.length(text)
    mark = literal("… (") + cast(length, Text) + literal(" characters)")
    return case((length > LONGEST, func.left(text, LONGEST) + mark), else_=text)


def cut(value: str | None) -> str | None:
    """A value for reports, cut if it is long."""
    if value is None or len(value) <= LONGEST:
        return value
    return f"{value[:LONGEST]}… ({len(value)} characters)"
