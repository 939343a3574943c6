"""Counts what differs exactly, and lists rows of it up to a maximum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapshots import keys
from snapshots.check import compare, reasons
from snapshots.check.compare import Found
from snapshots.check.listed import Key, Row, Tally, values
from snapshots.check.moments import Moments
from snapshots.check.reasons import Explained
from snapshots.check.report import (
    Count,
    Difference,
    Kind,
    Reason,
    SnapshotCheck,
)
from snapshots.differences import images
from snapshots.differences.window import FAST, Member

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Listed:
    """A row to be listed, before its values are read."""

    kind: Kind
    explained: Explained
    key: Key
    #: the columns that differ, by position
    columns: tuple[str, ...]


_Tally = Tally[Kind, Reason, Listed]


def take(
    held: Moments, members: Sequence[Member], most: int, *, gentle: bool
) -> Iterator[SnapshotCheck]:
    """Compare snapshots and explain what differs, in any order.

    Parameters:
        most: how many rows of each are listed.
        gentle: read in short steps.
    """
    for found in compare.differing(held.sides, members, gentle=gentle):
        tally = _Tally(Kind, Reason, most)
        for table in found.rows:
            for one in _rows(held, found.member, table):
                tally.add(one.kind, one.explained.reason, one)
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
        counts=tuple(
            Count(kind=kind, reason=reason, rows=rows)
            for kind, reason, rows in tally.counts()
        ),
        differences=tuple(with_values(held, member, tally.listed())),
        unproven=None if member.method == FAST else _UNPROVEN,
    )


_UNPROVEN = (
    "the master's snapshot logs do not name all changes since the last refresh, so the "
    "next one compares all rows"
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
    wanted = keys.of_rows((one.key for one in listed), member.snapshot.key_names)
    layout = images.layout(member)
    there = values(held.sides.master, images.of_keys(member, wanted), layout)
    here = values(held.sides.site, images.present_of_keys(member, wanted), layout)
    names = dict(zip(layout.columns, member.carried, strict=True))
    identity = member.snapshot.identity_columns
    for one in listed:
        shown = one.columns or layout.columns
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
    row: Row | None,
    places: Sequence[str],
    names: Mapping[str, str],
    kind: Kind,
    absent: Kind,
) -> Row | None:
    if row is None or kind is absent:
        return None
    return {names[place]: row[place] for place in places}
