"""Counts what differs exactly, and lists rows of it up to a maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING

from groups.check import compare
from groups.check.moments import Held
from groups.check.reasons import Explained, Reasons
from groups.check.report import (
    CheckDifference,
    CheckKind,
    CheckReason,
    TableCheck,
)
from groups.check.rows import Rows
from snapshots import keys
from snapshots.check import listed
from snapshots.check.listed import Key, Row, Tally
from snapshots.keys import Keys

if TYPE_CHECKING:
    import pyarrow as pa

#: Masters with the same image of a row, by their numbers; the largest group first.
Alike = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A row to be listed, before its values are read."""

    kind: CheckKind
    explained: Explained
    key: Key
    alike: Alike
    #: the columns that differ, by position
    columns: tuple[str, ...]


_Tally = Tally[CheckKind, CheckReason, _Listed]


def take(held: Held, every: Sequence[Rows], most: int) -> TableCheck:
    """Compare one table at all masters, and explain what differs.

    Parameters:
        every: its rows at each master.
        most: how many rows are listed.
    """
    first, names = every[0], [one.name for one in held.masters]
    sums = compare.sums(every)
    tally = _Tally(CheckKind, CheckReason, most)
    reasons = Reasons(held, first)
    for found in compare.differing(every, sums):
        for one in _rows(found, reasons, first, len(every)):
            tally.add(one.kind, one.explained.reason, one)
    return TableCheck(
        table=str(first.table.qualified),
        rows=dict(zip(names, sums.counts, strict=True)),
        counts=tally.counts(),
        differences=tuple(_with_values(names, every, tally.listed())),
    )


def _rows(
    found: pa.Table, reasons: Reasons, rows: Rows, masters: int
) -> Iterator[_Listed]:
    names = ("images", "differs", *rows.key_names)
    columns = [found.column(name).to_pylist() for name in names]
    told = reasons.explain(found)
    for why, images, differs, *key in zip(told, *columns, strict=True):
        same = alike(images)
        there = {number for some in same for number in some}
        kind = CheckKind.MISSING if len(there) < masters else CheckKind.DIFFERS
        which = tuple(differs.split(",")) if differs else ()
        yield _Listed(kind, why, tuple(key), same, which)


def alike(images: str) -> Alike:
    """The masters that have the same row, as `spark.diff.apart` names them."""
    some = [tuple(map(int, part.split(","))) for part in images.split("|")]
    return tuple(sorted(some, key=lambda one: (-len(one), one)))


def _with_values(
    names: Sequence[str], every: Sequence[Rows], some: Sequence[_Listed]
) -> Iterator[CheckDifference]:
    """Read the listed rows once more, at the same moments, for their values."""
    if not some:
        return
    wanted = keys.of_rows((one.key for one in some), every[0].key_names)
    read = [values(one, wanted) for one in every]
    columns = dict(zip(every[0].layout.columns, every[0].columns, strict=True))
    for one in some:
        letters: dict[str, str | None] = dict.fromkeys(names)
        shown: dict[str, Row] = {}
        for place, same in enumerate(one.alike):
            letter = _letter(place)
            letters.update((names[number], letter) for number in same)
            row = read[same[0]].get(one.key, {})
            which = one.columns or columns
            shown[letter] = {columns[c]: row.get(c) for c in which}
        yield CheckDifference(
            kind=one.kind,
            reason=one.explained.reason,
            key=dict(zip(every[0].table.key, one.key, strict=True)),
            columns=tuple(columns[c] for c in one.columns),
            masters=letters,
            images=shown,
            detail=one.explained.detail,
            transaction=one.explained.transaction,
            since=one.explained.since,
        )


def _letter(place: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    more, rest = divmod(place, len(ascii_uppercase))
    return (_letter(more - 1) if more else "") + ascii_uppercase[rest]


def values(rows: Rows, wanted: Keys) -> dict[Key, Row]:
    """The rows with these keys, with values as texts that are not too long."""
    return listed.values(rows.side, rows.images_of(wanted), rows.layout)
