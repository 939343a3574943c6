"""Writes seconds and bytes in units that people read."""

from __future__ import annotations


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
