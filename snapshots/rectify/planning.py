"""Plans what is to be mended of a refresh group; nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tenacity import stop_after_attempt

from sites import retry
from sites.extras import pa
from sites.progress import Progress
from sites.sessions.site import Site
from snapshots.check import compare, listed, moments, tally
from snapshots.check.moments import Moments
from snapshots.check.reader import AtOnce
from snapshots.check.reasons import Explained
from snapshots.check.report import Kind, Reason
from snapshots.check.run import ATTEMPTS
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences.window import Member
from snapshots.errors import PositionMoved
from snapshots.keys import Keys
from snapshots.rectify import found, send
from snapshots.rectify.choose import Policy
from snapshots.rectify.found import Found
from snapshots.rectify.report import Planned, PlannedRow, SnapshotRectified, Take
from snapshots.rectify.rules import Rules

#: A plan that was made before, or how to make one.
Decider: TypeAlias = Take | Policy | Rules

#: Rows that differ, and what decides about them.
_Decidable = tuple[Found, Decider]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows of a snapshot are looked at, and what decides about them."""

    #: all rows if None
    keys: Keys | None
    take: Decider


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """Rows of one snapshot whose both sides are to have the same side's row."""

    snapshot: Snapshot
    take: Take
    #: how they differ
    kind: Kind
    keys: Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What is to be mended of a group, with a report on each snapshot."""

    group: str
    master: Site
    intents: tuple[Intent, ...]
    reports: tuple[SnapshotRectified, ...]
    #: snapshots that were not looked at, since no refresh has filled them
    not_loaded: tuple[str, ...]


def plan(
    site: Site,
    group: str,
    wanted: Mapping[str, Sequence[Wanted]],
    most: int | None,
    progress: Progress | None,
) -> GroupPlan:
    """Compare snapshots of a group, and decide about rows that differ without a reason.

    Parameters:
        wanted: by snapshot, the rows that are looked at.
        most: how many rows of each snapshot are listed; None is all of them.

    Raises:
        CannotSend, NoCommitTimes, BadPlan, BadRule: it cannot be done so.
        PositionMoved: refreshes came in between again and again.
    """
    made: dict[str, tuple[list[Intent], SnapshotRectified]] = {}
    for attempt in retry.on(PositionMoved, stop=stop_after_attempt(ATTEMPTS)):
        with attempt, moments.held(site, group, [*wanted]) as held:
            members = [compare.whole(one) for one in held.seen.members]
            compared = _compared(held, members, wanted)
            for number, (member, some) in enumerate(compared, 1):
                made[member.snapshot.key] = _decide(held, member, some, most)
                if progress is not None:
                    progress(number, len(wanted), "snapshots")
    intents = [one for name in wanted if name in made for one in made[name][0]]
    _refuse_unsendable(site, intents)
    return GroupPlan(
        group=group,
        master=held.sides.master.site,
        intents=tuple(intents),
        reports=tuple(made[name][1] for name in wanted if name in made),
        not_loaded=tuple(name for name in wanted if name not in made),
    )


def _compared(
    held: Moments, members: Sequence[Member], wanted: Mapping[str, Sequence[Wanted]]
) -> Iterator[tuple[Member, list[_Decidable]]]:
    """The rows of each snapshot that differ, with what decides about them."""
    all_rows: dict[str, Decider] = {}
    for member in members:
        name, some = member.snapshot.key, list[_Decidable]()
        for one in wanted[name]:
            if one.keys is None:
                all_rows[name] = one.take
            else:
                some.append((found.of_keys(held, member, one.keys), one.take))
        if name not in all_rows:
            yield member, some
    whole = [one for one in members if one.snapshot.key in all_rows]
    for member, every in found.everywhere(held, whole):
        yield member, [(every, all_rows[member.snapshot.key])]


def _decide(
    held: Moments, member: Member, compared: Sequence[_Decidable], most: int | None
) -> tuple[list[Intent], SnapshotRectified]:
    left = Counter[tuple[Kind, Reason]]()
    intents: list[Intent] = []
    rows: list[PlannedRow] = []
    for some, take in compared:
        takes = (
            [take] * some.rows.num_rows
            if isinstance(take, Take)
            else take.takes(held, member, some)
        )
        left.update(some.left)
        space = None if most is None else most - len(rows)
        rows += _listed(held, member, some, takes, space)
        intents += _intents(member, some, takes)
    counts = Counter[tuple[Kind, Take]]()
    for each in intents:
        counts[each.kind, each.take] += each.keys.num_rows
    report = SnapshotRectified(
        name=member.snapshot.key,
        table=str(member.snapshot.master),
        planned=tuple(
            Planned(kind=kind, take=take, rows=counts[kind, take])
            for kind in Kind
            for take in Take
            if counts[kind, take]
        ),
        left=listed.counts(left, Kind, Reason),
        rows=tuple(rows),
    )
    return [one for one in intents if one.take is not Take.NOTHING], report


def _intents(member: Member, some: Found, takes: Sequence[Take]) -> Iterator[Intent]:
    keys, kinds = some.keys(member), some.kinds
    for kind in Kind:
        for take in Take:
            chosen = [(k, t) == (kind, take) for k, t in zip(kinds, takes, strict=True)]
            if any(chosen):
                yield Intent(
                    snapshot=member.snapshot,
                    take=take,
                    kind=kind,
                    keys=keys.filter(pa.array(chosen)),
                )


def _listed(
    held: Moments,
    member: Member,
    some: Found,
    takes: Sequence[Take],
    most: int | None,
) -> Iterator[PlannedRow]:
    """Rows with the values of both sides."""
    rows = some.rows if most is None else some.rows.slice(0, max(most, 0))
    names = ("kind", "differs", *member.snapshot.key_names)
    columns = (rows.column(name).to_pylist() for name in names)
    listed = [
        tally.Listed(
            Kind(kind),
            Explained(Reason.UNEXPLAINED),
            tuple(key),
            tuple(differs.split(",")) if differs else (),
        )
        for kind, differs, *key in zip(*columns, strict=True)
    ]
    shown = tally.with_values(AtOnce(held.sides), member, listed)
    for one, take in zip(shown, takes, strict=False):
        yield PlannedRow(
            snapshot=member.snapshot.key,
            key=one.key,
            take=take,
            kind=one.kind,
            master=one.master,
            here=one.here,
        )


def _refuse_unsendable(site: Site, intents: Sequence[Intent]) -> None:
    """Refuse before anything is written what a snapshot cannot send.

    Raises:
        CannotSend: it is read-only, or propagated synchronously.
    """
    sending = {o.snapshot.key: o.snapshot for o in intents if o.take is Take.SITE}
    if sending:
        with site.transaction() as connection:
            for one in sending.values():
                send.queue_of(connection, one)
