"""Comparing two column values: the order by which methods decide."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from masters.resolution.conflict import Conflict, Resolution, undecided
from masters.resolution.method import Tie, higher_wins, null_side, value_of

#: Gives the rank of a value; raises TypeError if it has none.
Rank = Callable[[object], tuple[Any, ...]]

#: Only a date or timestamp in these years can stand for infinity.
_ENDS = (date.min.year, date.max.year)

_SCALARS = (int, float, Decimal, str, bytes, time, timedelta, UUID)


def decide(
    conflict: Conflict,
    column: str,
    rank: Rank,
    *,
    lower_wins: bool = False,
    tie: Tie = Tie.UNDECIDED,
) -> Resolution:
    """Let the new or the current row win by the value of one column.

    NULL on either side, and values that do not compare, decide nothing. For equal
    values `tie` decides.
    """
    if reason := null_side(conflict, column, "new", "current"):
        return undecided(reason)
    new, current = value_of(conflict.new, column), value_of(conflict.current, column)
    try:
        theirs, ours = rank(new), rank(current)
        if lower_wins:
            theirs, ours = ours, theirs
        reason = "".join(map(str, words(column, new, current)))
        return higher_wins(theirs, ours, reason, tie)
    except (TypeError, OverflowError):
        return undecided(f"{column}: {new} and {current} cannot be compared")


def words(column: object, new: object, current: object) -> tuple[object, ...]:
    """How the reasons of `decide` begin: with the values that it compared.

    In pieces, which may be expressions of a statement.
    """
    return column, ": ", new, " against ", current


def magnitude(value: object) -> tuple[Any, ...]:
    """A rank as PostgreSQL sorts: NaN above all numbers, dates as by `moment`.

    Text is ranked by code point (collation C), so that every master agrees.

    Raises:
        TypeError: the value is no number, text, bytes, time or uuid.
    """
    if isinstance(value, date):
        return moment(value)
    if not isinstance(value, _SCALARS):
        raise TypeError(f"{type(value).__name__} has no order")
    if isinstance(value, float | Decimal) and math.isnan(value):
        return (1,)
    return 0, value


def moment(value: object) -> tuple[Any, ...]:
    """A rank: -infinity, then dates and timestamps, then infinity.

    Timestamps with a zone are compared in UTC: Python compares two of one zone by
    their local time, which is wrong in the hour that daylight saving repeats.

    Raises:
        TypeError: the value is no date or timestamp.
    """
    if not isinstance(value, date):
        raise TypeError(f"{type(value).__name__} is not a date or timestamp")
    if value.year in _ENDS:
        bare = value.replace(tzinfo=None) if isinstance(value, datetime) else value
        if bare == type(bare).max:
            return (1,)
        if bare == type(bare).min:
            return (-1,)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return 0, value if value.tzinfo is UTC else value.astimezone(UTC)
    return 0, value
