"""Counts what differs exactly, and lists rows of it up to a maximum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, cast, select

from groups.check import compare
from groups.check.moments import Held
from groups.check.reasons import Explained, Key, Reasons
from groups.check.report import (
    CheckCount,
    CheckDifference,
    CheckKind,
    CheckReason,
    TableCheck,
)
from groups.check.rows import Rows
from snapshots.check.tally import short
from snapshots.keys import Keys
from snaptide_imports import lazily

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazily("pyarrow")

#: Masters with the same image of a row, by their numbers; the largest group first.
Alike = tuple[tuple[int, ...], ...]

_Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A row to be listed, before its values are read."""

    kind: CheckKind
    explained: Explained
    key: Key
    alike: Alike
    #: the columns that differ, by position
    columns: tuple[str, ...]


@dataclass(slots=True)
class _Tally:
    most: int
    counts: Counter[tuple[CheckKind, CheckReason]] = field(default_factory=Counter)
    unexplained: list[_Listed] = field(default_factory=list)
    others: list[_Listed] = field(default_factory=list)

    def add(self, one: _Listed) -> None:
        reason = one.explained.reason
        self.counts[one.kind, reason] += 1
        unexplained = reason is CheckReason.UNEXPLAINED
        place = self.unexplained if unexplained else self.others
        if len(place) < self.most:
            place.append(one)

    def listed(self) -> list[_Listed]:
        return (self.unexplained + self.others)[: self.most]


def take(held: Held, every: Sequence[Rows], most: int) -> TableCheck:
    """Compare one table at all masters, and explain what differs.

    Parameters:
        every: its rows at each master.
        most: how many rows are listed.
    """
    first, names = every[0], [one.name for one in held.masters]
    sums = compare.sums(every)
    tally, reasons = _Tally(most), Reasons(held, first)
    for found in compare.differing(every, sums):
        for one in _rows(found, reasons, first, len(every)):
            tally.add(one)
    return TableCheck(
        table=str(first.table.qualified),
        rows=dict(zip(names, sums.counts, strict=True)),
        counts=_counts(tally),
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


def _counts(tally: _Tally) -> tuple[CheckCount, ...]:
    reasons, kinds = list(CheckReason), list(CheckKind)
    order = sorted(
        tally.counts, key=lambda one: (-reasons.index(one[1]), kinds.index(one[0]))
    )
    return tuple(
        CheckCount(kind=kind, reason=reason, rows=tally.counts[kind, reason])
        for kind, reason in order
    )


def _with_values(
    names: Sequence[str], every: Sequence[Rows], listed: Sequence[_Listed]
) -> Iterator[CheckDifference]:
    """Read the listed rows once more, at the same moments, for their values."""
    if not listed:
        return
    keys = zip(*(one.key for one in listed), strict=True)
    wanted = pa.Table.from_arrays(
        [pa.array(values, pa.string()) for values in keys], names=every[0].key_names
    )
    read = [values(one, wanted) for one in every]
    columns = dict(zip(every[0].layout.columns, every[0].columns, strict=True))
    for one in listed:
        letters: dict[str, str | None] = dict.fromkeys(names)
        shown: dict[str, _Row] = {}
        for place, same in enumerate(one.alike):
            letter = _letter(place)
            letters.update((names[number], letter) for number in same)
            row = read[same[0]].get(one.key, {})
            some = one.columns or tuple(columns)
            shown[letter] = {columns[c]: row.get(c) for c in some}
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


def values(rows: Rows, wanted: Keys) -> dict[Key, _Row]:
    """The rows with these keys, with values as texts that are not too long."""
    layout = rows.layout
    images = rows.images_of(wanted).subquery("images")
    columns: list[Any] = [
        cast(images.c[place], Text).label(name)
        for place, name in zip(layout.key, rows.key_names, strict=True)
    ]
    columns += [short(cast(images.c[c], Text)).label(c) for c in layout.columns]
    texts = pa.schema([(column.name, pa.string()) for column in columns])
    found = rows.side.read(select(*columns), texts, many=False)
    parts = len(layout.key)
    return {
        tuple(row[:parts]): dict(zip(layout.columns, row[parts:], strict=True))
        for row in zip(*(c.to_pylist() for c in found.columns), strict=True)
    }
