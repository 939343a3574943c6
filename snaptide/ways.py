"""Says in words which way a refresh took, what that cost, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping

from snapshots import WayTaken
from snaptide.units import duration


def said(ways: Mapping[str, WayTaken], most: int | None = None) -> list[str]:
    """A text for each snapshot, as "t: fast, 20 changed rows in 0.4 s".

    Parameters:
        ways: by snapshot, in any order.
        most: at most so many, those that took longest; what is left out is counted.
    """
    order = sorted(ways, key=lambda name: (-ways[name].seconds, name))
    found = [f"{name}: {_said_of(ways[name])}" for name in order[:most]]
    others = len(ways) - len(found)
    return [*found, f"and {others:,} more"] if others else found


def _said_of(taken: WayTaken) -> str:
    """As "sums of about 300 rows in 2.0 s (expected: fast 9.0 s, sums 1.5 s)"."""
    text = f"{_size(taken)} in {duration(taken.seconds)}"
    costs = (f"{way} {duration(cost)}" for way, cost in taken.estimates.items())
    return f"{text} (expected: {', '.join(costs)})" if taken.estimates else text


def _size(taken: WayTaken) -> str:
    if taken.way == "fast":
        return f"fast, {taken.size or 0:,} changed rows"
    rows = "all rows" if taken.size is None else f"about {taken.size:,} rows"
    return f"sums of {rows}" if taken.way == "sums" else f"complete, {rows}"
