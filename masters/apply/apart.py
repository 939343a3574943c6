"""Taking rows apart again that are alike, and telling what is said of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from masters.apply.alike import Pairs
from masters.apply.detect import RowConflicts
from masters.apply.resolve import ResolutionRecord
from masters.resolution import METHODS
from masters.resolution.conflict import Row
from masters.resolution.extremes import Extreme
from masters.resolution.method import value_of
from masters.resolution.order import words


def without(
    rows: Iterable[RowConflicts], gone: Collection[int]
) -> Iterator[RowConflicts]:
    """The rows without the calls that are gone."""
    for row in rows:
        left = [n for n, call_no in enumerate(row.call_nos) if call_no not in gone]
        if len(left) == len(row.call_nos):
            yield row
        elif left:
            yield replace(
                row,
                call_nos=[row.call_nos[n] for n in left],
                compared={
                    name: [pairs[n] for n in left]
                    for name, pairs in row.compared.items()
                },
            )


def apart(row: RowConflicts) -> Iterator[RowConflicts]:
    """Rows that are alike, one by one in their order, each with its own values."""
    for call_no, place in sorted((no, n) for n, no in enumerate(row.call_nos)):
        own = {name: pairs[place] for name, pairs in row.compared.items()}
        new = {name: pair[0] for name, pair in own.items()}
        current = {name: pair[1] for name, pair in own.items()}
        conflicts = [
            replace(
                one,
                new=overlaid(one.new, new),
                current=overlaid(one.current, current),
            )
            for one in row.conflicts
        ]
        yield replace(row, call_nos=[call_no], conflicts=tuple(conflicts), compared={})


def reasons(one: ResolutionRecord, compared: Pairs) -> Sequence[str] | None:
    """The reason of an answer for each call; None if one reason is that of all.

    Parameters:
        compared: the values of each call that were compared, by column.
    """
    method, column = METHODS.get(one.rule.method), one.rule.parameters.get("column")
    if method is None or not issubclass(method, Extreme):
        return None
    column = str(column)
    conflict, reason = one.conflict, one.resolution.reason
    shown = words(
        column, value_of(conflict.new, column), value_of(conflict.current, column)
    )
    if column not in compared or not reason.startswith(shown):
        return None
    rest = reason[len(shown) :]
    return [words(column, new, current) + rest for new, current in compared[column]]


def overlaid(row: Row | None, values: Row) -> Row | None:
    """A row with other values in some columns; None if there is no row."""
    return None if row is None else {**row, **values}
