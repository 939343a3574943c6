"""Writes values as people read them: seconds and bytes in units, numbers exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum


def duration(seconds: float | None) -> str:
    """Write seconds in a readable unit: 0.4 s, 12 s, 5 min, 3 h, 2 d."""
    if seconds is None:
        return "-"
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.{1 if seconds < 10 else 0}f} {unit}"
    return f"{seconds / 86400:.0f} d"


def size(count: int) -> str:
    """Write bytes in a readable unit: 12 B, 3.4 kB, 5.6 MB."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.{0 if units[0] == 'B' else 1}f} {units[0]}"


def written(value: object, moment: Callable[[datetime], str]) -> str:
    """A value as text, with all that it is made of.

    Parameters:
        moment: how a time is written.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, bytes | memoryview):
        return f"\\x{bytes(value).hex()}"
    if isinstance(value, timedelta):
        return duration(value.total_seconds())
    if isinstance(value, Mapping):
        each = (f"{name}={written(one, moment)}" for name, one in value.items())
        return ", ".join(each) or "-"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(written(one, moment) for one in value) or "-"
    return str(value.value if isinstance(value, Enum) else value)
