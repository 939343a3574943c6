"""Plans what is to be mended at masters of a group; nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from groups.check import compare, moments, tally
from groups.check.moments import Held
from groups.check.reasons import Key, Reasons
from groups.check.report import CheckReason
from groups.check.rows import Rows, of_table
from groups.errors import CannotReplicate
from groups.group import Group
from groups.rectify.report import (
    RectifyExtra,
    RectifyPlanned,
    RectifyRow,
    TableRectified,
)
from sites import QualifiedName, Site
from sites.errors import SiteUnreachable
from sites.extras import pa
from sites.progress import Progress
from snapshots import keys
from snapshots.check import listed
from snapshots.check.report import Kind
from snapshots.keys import Keys
from snapshots.rectify.report import Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for."""

    group: str
    tables: tuple[QualifiedName, ...]
    reference: str
    #: all other masters if there is none
    targets: tuple[str, ...]
    extra: RectifyExtra
    missing: Missing
    #: by table, the only rows that are looked at; all if the table is not there
    only: Mapping[QualifiedName, Keys]
    #: how many rows of each table of each target are listed
    most: int

    def mends(self, kind: Kind) -> bool:
        """Whether rows that differ in this way are to be mended."""
        if kind is Kind.EXTRA:
            return self.extra is RectifyExtra.DELETE
        return kind is Kind.DIFFERS or self.missing is Missing.COPY


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """Rows of one table that a target is to have as the reference has them."""

    table: QualifiedName
    #: how they differ
    kind: Kind
    keys: Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be mended, with a report on each table of each target."""

    group: Group
    targets: tuple[str, ...]
    left_out: Mapping[str, str]
    away: tuple[str, ...]
    intents: Mapping[str, Sequence[Intent]]
    reports: tuple[TableRectified, ...]


@dataclass(slots=True)
class Found:
    """The rows of a table that a target has different from the reference."""

    #: by kind and reason, how many rows there are
    every: Counter[tuple[Kind, CheckReason]] = field(default_factory=Counter)
    #: and how many of them have a reason, and take their course
    left: Counter[tuple[Kind, CheckReason]] = field(default_factory=Counter)
    #: keys of the others
    settled: dict[Kind, list[Keys]] = field(default_factory=dict)
    listed: list[tuple[Kind, Key, tuple[str, ...]]] = field(default_factory=list)

    def keys(self, kind: Kind) -> Keys | None:
        """Those of rows that differ so without a reason; None if there is none."""
        found = self.settled.get(kind)
        return pa.concat_tables(found) if found else None

    def all_keys(self) -> Keys | None:
        """The same, in whatever way they differ."""
        found = [some for one in self.settled.values() for some in one]
        return pa.concat_tables(found) if found else None


def plan(site: Site, wanted: Wanted, progress: Progress | None) -> Plan:
    """Compare targets with the reference, and decide about rows that differ.

    Raises:
        CannotReplicate: the reference, or a target that was named, is left out.
        SiteUnreachable: it is left out because a master does not answer.
        CheckDisturbed: the group or a queue changed again and again.
    """

    def planned(held: Held) -> Plan:
        left_out = dict(held.left_out)
        targets = _targets(held, wanted, left_out)
        made = _planned(held, wanted, targets, progress) if targets else []
        return Plan(
            group=held.group,
            targets=tuple(targets),
            left_out=left_out,
            away=held.away,
            intents={
                to: [
                    one for report, some in made if report.target == to for one in some
                ]
                for to in targets
            },
            reports=tuple(report for report, _ in made),
        )

    return moments.undisturbed(site, wanted.group, wanted.tables, planned)


def sender_to(group: Group, reference: str, target: str) -> str:
    """The master from which a target gets the changes of the reference.

    No changes begin at a read-only reference: then any that sends to the target.
    """
    ways = [path for path in group.paths if path.target == target]
    mine = [path for path in ways if path.source == reference]
    return (mine or ways)[0].local


def concerned(plan: Plan, wanted: Wanted) -> list[str]:
    """The masters that corrections come from, go to, or are queued at."""
    senders = [sender_to(plan.group, wanted.reference, one) for one in plan.targets]
    return [*dict.fromkeys([wanted.reference, *plan.targets, *senders])]


def compared(
    held: Held, every: Sequence[Rows], found: Iterable[pa.Table], most: int = 0
) -> list[Found]:
    """What each target has different from the reference.

    Parameters:
        every: the rows of a table at the reference, and at each target.
        found: as `groups.check.compare` finds them among these.
        most: how many rows are listed.
    """
    answers = [Found() for _ in every[1:]]
    reasons = Reasons(held, every[0])
    for table in found:
        _divide(table, reasons, every[0], answers, most)
    return answers


def _targets(held: Held, wanted: Wanted, left_out: dict[str, str]) -> list[str]:
    """The masters to be compared with the reference; adds to those that are not."""
    group, reference = held.group, wanted.reference
    for name in (reference, *wanted.targets):
        group.master(name)
        if name in left_out:
            refused = SiteUnreachable if name in held.away else CannotReplicate
            why = left_out[name].removesuffix(".")
            raise refused(f"{name} cannot be compared: {why}.", master=name)
    targets = []
    for name in wanted.targets or [one.name for one in held.masters]:
        if name == reference:
            continue
        sender = sender_to(group, reference, name)
        if held.master(sender) is not None:
            targets.append(name)
            continue
        why = f"changes of {reference} come there from {sender}, which is left out"
        if wanted.targets:
            refused = SiteUnreachable if sender in held.away else CannotReplicate
            raise refused(f"{name} cannot be corrected: {why}.", master=name)
        left_out[name] = why
    return targets


def _planned(
    held: Held, wanted: Wanted, targets: Sequence[str], progress: Progress | None
) -> list[tuple[TableRectified, list[Intent]]]:
    made = []
    for number, table in enumerate(wanted.tables):
        if progress is not None:
            progress(number, len(wanted.tables), "tables")
        every = rows_of(held, table, (wanted.reference, *targets))
        only = wanted.only.get(table)
        found = (
            compare.differing(every, compare.sums(every))
            if only is None
            else compare.of_keys(every, only)
        )
        answers = compared(held, every, found, wanted.most)
        for to, mine, one in zip(targets, every[1:], answers, strict=True):
            sender = sender_to(held.group, wanted.reference, to)
            made.append(_decided(wanted, to, sender, (every[0], mine), one))
    return made


def rows_of(held: Held, table: QualifiedName, masters: Sequence[str]) -> list[Rows]:
    """A table at each of these masters, in this order."""
    names = [one.name for one in held.masters]
    every = dict(zip(names, of_table(held, table, None, ()), strict=True))
    return [every[name] for name in masters]


def _divide(
    table: pa.Table,
    reasons: Reasons,
    rows: Rows,
    answers: Sequence[Found],
    most: int,
) -> None:
    """Add rows that differ between any of the masters to each target's."""
    told = reasons.explain(table)
    places: list[dict[Kind, list[int]]] = [{} for _ in answers]
    keys = table.select(rows.key_names)
    names = ("images", "differs", *rows.key_names)
    columns = [table.column(name).to_pylist() for name in names]
    each = enumerate(zip(told, *columns, strict=True))
    for number, (why, images, differs, *key) in each:
        for target, kind in _kinds(images, len(answers)):
            one = answers[target]
            one.every[kind, why.reason] += 1
            if not why.is_settled:
                one.left[kind, why.reason] += 1
                continue
            places[target].setdefault(kind, []).append(number)
            if len(one.listed) < most:
                which = differs.split(",") if kind is Kind.DIFFERS else ()
                one.listed.append((kind, tuple(key), tuple(which)))
    for one, mine in zip(answers, places, strict=True):
        for kind, numbers in mine.items():
            one.settled.setdefault(kind, []).append(keys.take(numbers))


def _kinds(images: str, targets: int) -> Iterator[tuple[int, Kind]]:
    """The targets that have a row different from the reference, which is number 0."""
    has = {
        number: place
        for place, some in enumerate(tally.alike(images))
        for number in some
    }
    for target in range(targets):
        theirs, ours = has.get(0), has.get(target + 1)
        if theirs == ours:
            continue
        if theirs is None:
            yield target, Kind.EXTRA
        else:
            yield target, Kind.MISSING if ours is None else Kind.DIFFERS


def _decided(
    wanted: Wanted, target: str, sender: str, pair: tuple[Rows, Rows], found: Found
) -> tuple[TableRectified, list[Intent]]:
    table = pair[0].table.qualified
    every = {kind: keys for kind in Kind if (keys := found.keys(kind)) is not None}
    report = TableRectified(
        target=target,
        table=str(table),
        sender=sender,
        planned=tuple(
            RectifyPlanned(kind=kind, mend=wanted.mends(kind), rows=keys.num_rows)
            for kind, keys in every.items()
        ),
        left=listed.counts(found.left, Kind, CheckReason),
        rows=tuple(_listed(wanted, pair, found)),
    )
    intents = [
        Intent(table=table, kind=kind, keys=keys)
        for kind, keys in every.items()
        if wanted.mends(kind)
    ]
    return report, intents


def _listed(
    wanted: Wanted, pair: tuple[Rows, Rows], found: Found
) -> Iterator[RectifyRow]:
    """Rows with the values of both masters."""
    if not found.listed:
        return
    first = pair[0]
    asked = keys.of_rows((key for _, key, _ in found.listed), first.key_names)
    theirs, ours = (tally.values(one, asked) for one in pair)
    columns = dict(zip(first.layout.columns, first.columns, strict=True))
    for kind, key, which in found.listed:
        shown = which or tuple(columns)
        there, here = (
            row and {columns[c]: row[c] for c in shown}
            for row in (theirs.get(key), ours.get(key))
        )
        yield RectifyRow(
            key=dict(zip(first.table.key, key, strict=True)),
            kind=kind,
            mend=wanted.mends(kind),
            reference=there,
            target=here,
        )
