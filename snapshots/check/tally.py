"""Counts what differs exactly, and lists rows of it up to a maximum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from sites.progress import Progress
from snapshots import keys
from snapshots.check import compare, reasons
from snapshots.check.compare import Found
from snapshots.check.gently import Gently
from snapshots.check.listed import Key, Row, Tally, values
from snapshots.check.moments import Moments
from snapshots.check.reader import AtOnce, Reader
from snapshots.check.reasons import Explained
from snapshots.check.report import Difference, Kind, Reason, SnapshotCheck
from snapshots.differences import images
from snapshots.differences.window import FAST, Member
from snapshots.keys import Keys

#: Progress is told each time after so many rows.
MANY = 10_000

Rows = Mapping[Key, Row]


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
    held: Moments,
    members: Sequence[Member],
    most: int,
    *,
    gentle: bool,
    progress: Progress | None,
) -> Iterator[SnapshotCheck]:
    """Compare snapshots and explain what differs, in any order.

    Parameters:
        most: how many rows of each are listed.
        gentle: read in short steps.
        progress: is told how many pages are read; and of a snapshot of which many rows
            differ, how many of these are explained.
    """
    reader = (Gently if gentle else AtOnce)(held.sides, members, progress)
    for found in compare.differing(reader, members):
        tally = _Tally(Kind, Reason, most)
        for done, one in enumerate(_rows(held, found, reader), 1):
            tally.add(one.kind, one.explained.reason, one)
            if progress is not None and done % MANY == 0:
                progress(done, None, "rows")
        yield _result(held, found, tally, reader)


def _result(
    held: Moments, found: Found, tally: _Tally, reader: Reader
) -> SnapshotCheck:
    member, snapshot = found.member, found.member.snapshot
    rows_master, rows_here = found.sums.counts
    return SnapshotCheck(
        name=snapshot.key,
        group=snapshot.refresh_group,
        master=held.sides.master.site.name,
        table=str(snapshot.master),
        position=member.since,
        moment_here=held.here,
        moment_master=held.seen.position,
        rows_master=rows_master,
        rows_here=rows_here,
        counts=tally.counts(),
        differences=tuple(with_values(reader, member, tally.listed())),
        unproven=None if member.method == FAST else _UNPROVEN,
    )


_UNPROVEN = (
    "the master's snapshot logs do not name all changes since the last refresh, so the "
    "next one compares all rows"
)


def _rows(held: Moments, found: Found, reader: Reader) -> Iterator[Listed]:
    """The rows that differ, explained."""
    names = ("kind", "differs", *found.member.snapshot.key_names)
    ask = partial(reasons.explain, held, found.member)
    for table in found.rows:
        told = reader.of_keys(table, ask)
        columns = [table.column(name).to_pylist() for name in names]
        every = zip(chain.from_iterable(told), *columns, strict=True)
        for why, kind, differs, *key in every:
            which = tuple(differs.split(",")) if differs else ()
            yield Listed(Kind(kind), why, tuple(key), which)


def with_values(
    reader: Reader, member: Member, listed: Sequence[Listed]
) -> Iterator[Difference]:
    """Read the listed rows once more, at the same moments, for their values."""
    if not listed:
        return
    wanted = keys.of_rows((one.key for one in listed), member.snapshot.key_names)
    layout, sides = images.layout(member), reader.sides

    def read(some: Keys) -> tuple[Rows, Rows]:
        return (
            values(sides.master, images.of_keys(member, some), layout),
            values(sides.site, images.present_of_keys(member, some), layout),
        )

    there: dict[Key, Row] = {}
    here: dict[Key, Row] = {}
    for theirs, ours in reader.of_keys(wanted, read):
        there |= theirs
        here |= ours
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
