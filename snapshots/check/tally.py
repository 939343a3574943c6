"""Counts what differs exactly, and lists rows of it up to a maximum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, Text, case, cast, func, literal, select

from snapshots import images
from snapshots.check import compare, reasons
from snapshots.check.compare import Found
from snapshots.check.moments import Moments
from snapshots.check.reasons import Explained
from snapshots.check.report import (
    Count,
    Difference,
    Kind,
    Reason,
    SnapshotCheck,
)
from snapshots.side import Side
from snapshots.window import FAST, Member
from snaptide_imports import lazily

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazily("pyarrow")

#: Longer values are cut in reports, with a mark that says how long they are.
LONGEST = 200

_Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Listed:
    """A row to be listed, before its values are read."""

    kind: Kind
    explained: Explained
    key: tuple[str | None, ...]
    #: the columns that differ, by position
    columns: tuple[str, ...]


@dataclass(slots=True)
class _Tally:
    most: int
    counts: Counter[tuple[Kind, Reason]] = field(default_factory=Counter)
    unexplained: list[Listed] = field(default_factory=list)
    others: list[Listed] = field(default_factory=list)

    def add(self, one: Listed) -> None:
        reason = one.explained.reason
        self.counts[one.kind, reason] += 1
        place = self.unexplained if reason is Reason.UNEXPLAINED else self.others
        if len(place) < self.most:
            place.append(one)

    def listed(self) -> list[Listed]:
        return (self.unexplained + self.others)[: self.most]


def take(
    held: Moments, members: Sequence[Member], most: int, *, gentle: bool
) -> Iterator[SnapshotCheck]:
    """Compare snapshots and explain what differs, in any order.

    Parameters:
        most: how many rows of each are listed.
        gentle: read in short steps.
    """
    for found in compare.differing(held.sides, members, gentle=gentle):
        tally = _Tally(most)
        for table in found.rows:
            for one in _rows(held, found.member, table):
                tally.add(one)
        yield _result(held, found, tally)


def _result(held: Moments, found: Found, tally: _Tally) -> SnapshotCheck:
    member, snapshot = found.member, found.member.snapshot
    rows_master, rows_here = found.sums.counts
    return SnapshotCheck(
        name=snapshot.key,
        group=snapshot.refresh_group,
        master=held.sides.master.site.name,
        table=str(snapshot.master),
        position=held.seen.since,
        moment_here=held.here,
        moment_master=held.seen.position,
        rows_master=rows_master,
        rows_here=rows_here,
        counts=_counts(tally),
        differences=tuple(with_values(held, member, tally.listed())),
        unproven=None if member.method == FAST else _UNPROVEN,
    )


_UNPROVEN = (
    "the master's snapshot logs do not name all changes since the last refresh, so the "
    "next one compares all rows"
)


def _counts(tally: _Tally) -> tuple[Count, ...]:
    reasons_, kinds = list(Reason), list(Kind)
    order = sorted(
        tally.counts, key=lambda one: (-reasons_.index(one[1]), kinds.index(one[0]))
    )
    return tuple(
        Count(kind=kind, reason=reason, rows=tally.counts[kind, reason])
        for kind, reason in order
    )


def _rows(held: Moments, member: Member, table: pa.Table) -> Iterator[Listed]:
    names = member.snapshot.key_names
    columns = [table.column(name).to_pylist() for name in ("kind", "differs", *names)]
    told = reasons.explain(held, member, table) if table.num_rows else []
    for why, kind, differs, *key in zip(told, *columns, strict=True):
        which = tuple(differs.split(",")) if differs else ()
        yield Listed(Kind(kind), why, tuple(key), which)


def with_values(
    held: Moments, member: Member, listed: Sequence[Listed]
) -> Iterator[Difference]:
    """Read the listed rows once more, at the same moments, for their values."""
    if not listed:
        return
    keys = zip(*(one.key for one in listed), strict=True)
    wanted = pa.Table.from_arrays(
        [pa.array(values, pa.string()) for values in keys],
        names=member.snapshot.key_names,
    )
    there = _values(held.sides.master, member, images.of_keys(member, wanted))
    here = _values(held.sides.site, member, images.present_of_keys(member, wanted))
    names = dict(zip(images.positions(member), member.carried, strict=True))
    identity = member.snapshot.identity_columns
    for one in listed:
        shown = one.columns or tuple(images.positions(member))
        call = one.explained.call
        yield Difference(
            kind=one.kind,
            reason=one.explained.reason,
            key=dict(zip(identity, one.key, strict=True)),
            columns=tuple(names[place] for place in one.columns),
            master=_shown(there.get(one.key), shown, names, one.kind, Kind.EXTRA),
            here=_shown(here.get(one.key), shown, names, one.kind, Kind.MISSING),
            detail=one.explained.detail,
            transaction=call.transaction if call else None,
            since=call.began if call else None,
        )


def _shown(
    row: _Row | None,
    places: Sequence[str],
    names: Mapping[str, str],
    kind: Kind,
    absent: Kind,
) -> _Row | None:
    if row is None or kind is absent:
        return None
    return {names[place]: row[place] for place in places}


def _values(
    side: Side, member: Member, query: Select[Any]
) -> dict[tuple[str | None, ...], _Row]:
    """The rows of a query by their keys, with values as texts that are not too long."""
    rows = query.subquery("images")
    places = images.positions(member)
    identity = images.key_positions(member)
    columns: list[Any] = [
        cast(rows.c[place], Text).label(name)
        for place, name in zip(identity, member.snapshot.key_names, strict=True)
    ]
    columns += [short(cast(rows.c[place], Text)).label(place) for place in places]
    shape = pa.schema([(column.name, pa.string()) for column in columns])
    found = side.read(select(*columns), shape, many=False)
    key_count = len(identity)
    return {
        tuple(values[:key_count]): dict(zip(places, values[key_count:], strict=True))
        for values in zip(*(c.to_pylist() for c in found.columns), strict=True)
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
