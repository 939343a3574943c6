"""Checks that a snapshot can hold each value of its master unchanged.

If a type refuses a value (a text too long, a number out of range), the refresh says so.
If a type rounds or cuts it, the site would silently hold another value.
"""

from __future__ import annotations

import re

from sites.table import Column, Table
from snapshots.errors import ColumnChanged
from snapshots.snapshot import Snapshot

_SIZED = re.compile(r"([^(]+)\((\d+)(?:,(-?\d+))?\)(.*)")
_INTEGERS = {"smallint", "integer", "bigint"}
_TEXTS = {"text", "character varying"}
#: These types refuse a longer value, and never round.
_REFUSING = {"character varying", "character", "bit", "bit varying"}


def refuse_lossy(snapshot: Snapshot, table: Table, base: Table) -> None:
    """Make sure that no value of the master would be changed on its way.

    Parameters:
        table, base: the master table, and the snapshot's own.

    Raises:
        ColumnChanged: a column has another type now, which might change a value.
    """
    for name in snapshot.columns:
        there, here = table.column(name), base.column(name)
        if there.type != here.type and not _holds(here, there):
            raise ColumnChanged(
                f"{snapshot.master}.{name} is {there.type} at the master, but "
                f"{here.type} in {snapshot.key}.",
                snapshot=snapshot.key,
                column=name,
            )


def _holds(here: Column, there: Column) -> bool:
    """Whether a type refuses all values of another that it cannot hold as they are."""
    if here.recorded == there.recorded:
        return True
    mine, size = _divided(here.recorded)
    its, its_size = _divided(there.recorded)
    if mine != its:
        exact = mine == "numeric" and (size is None or size[-1] >= 0)
        whole = its in _INTEGERS and (mine in _INTEGERS or exact)
        return whole or {mine, its} <= _TEXTS
    plain = mine.partition("[")[0]
    if size is None or plain in _REFUSING:
        return True
    # The last number is how many digits are kept after the point.
    return its_size is not None and size[-1] >= its_size[-1]


def _divided(kind: str) -> tuple[str, tuple[int, ...] | None]:
    """A type without its length, and its length: digits, and those after the point."""
    found = _SIZED.fullmatch(kind)
    if found is None:
        return kind, None
    base, first, second, rest = found.groups()
    return base + rest, (int(first), int(second)) if second else (int(first),)
