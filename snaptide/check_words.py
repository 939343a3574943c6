"""What a check found, in words: for the terminal, its page and the console."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from groups.check.report import CheckReason
from sites.words import counted
from snapshots.check.listed import cut
from snapshots.check.report import Reason

if TYPE_CHECKING:
    from groups import (
        CheckDifference,
        GroupCheckReport,
        GroupRectifyReport,
        TableCheck,
        TableRectified,
    )
    from snapshots import RectifyReport, SnapshotRectified
    from snapshots.check.report import CheckReport, Difference, SnapshotCheck

_MEANING: Mapping[Reason | CheckReason, str] = {
    Reason.REFUSED: "A trigger, constraint or policy of the site refuses the row.",
    Reason.PENDING: "A change of the site waits for its push, or for the answer.",
    Reason.PARKED: "A change of the site is in the master's error queue.",
    Reason.LEAVING: "The row leaves the snapshot, and has to stay for now.",
    Reason.HELD_BACK: "A refresh left the row alone; the next looks at it again.",
    Reason.OUTSIDE: "The next refresh removes it: it is not in the subset any more.",
    Reason.IN_FLIGHT: "Changed at the master since the moment that the site shows.",
    Reason.UNPROVEN: "The logs do not name all changes since that moment.",
    Reason.UNEXPLAINED: "None of these: the two sides have come apart.",
    # Of a row that masters of a group have different:
    CheckReason.IN_FLIGHT: "A change has come to one master, and not to another yet.",
    CheckReason.PARKED: "A change is in the error queue of a master.",
    CheckReason.DECIDED: "An error was edited or deleted, or a master was restored.",
    CheckReason.UNPROVEN: "A change that explains it may be where it cannot be read.",
    CheckReason.UNEXPLAINED: "None of these: the masters have come apart.",
}


def values(row: Mapping[str, str | None] | None) -> str:
    """The values of a row, by their columns."""
    if row is None:
        return "no row"
    shown = (f"{k}: {'NULL' if v is None else cut(v)}" for k, v in row.items())
    return ", ".join(shown)


def said_of(report: CheckReport) -> str:
    """The outcome of a check in a sentence or two."""
    left = [*report.away, *report.not_compared]
    said = _of_rows(report)
    return f"{said} Not compared: {', '.join(left)}." if left else said


def _of_rows(report: CheckReport) -> str:
    if report.unexplained:
        return f"{counted(report.unexplained, 'row', 'differ')} without a reason."
    if report.unproven:
        said = counted(report.unproven, "row", "differ")
        return f"{said} and cannot be told: refresh first."
    compared = [one for one in report.snapshots if one.compared]
    if not compared:
        return "Nothing was compared."
    equal = all(one.equal for one in compared)
    return "Equal." if equal else "All differences are explained."


def counts_of(one: SnapshotCheck | TableCheck) -> Iterator[tuple[str, str, int]]:
    """How many rows differ in which way for which reason; a line if none does."""
    if not one.counts:
        yield "-", "equal" if one.equal else "not compared", 0
    for count in one.counts:
        yield count.kind.value, count.reason.value, count.rows


def meanings(checks: Iterable[SnapshotCheck | TableCheck]) -> dict[str, str]:
    """What the reasons say of a row that checks have found."""
    found = {count.reason for one in checks for count in one.counts}
    return {one.value: said for one, said in _MEANING.items() if one in found}


def said_of_masters(report: GroupCheckReport) -> str:
    """The outcome of a check of masters in one sentence."""
    if report.unexplained:
        return f"{counted(report.unexplained, 'row', 'differ')} without a reason."
    if report.unproven:
        return f"{counted(report.unproven, 'row', 'differ')} and cannot be told."
    if len(report.masters) < 2:
        return "No two masters could be compared."
    equal = all(one.equal for one in report.tables)
    return "Equal." if equal else "All differences are explained."


def images_of(row: CheckDifference) -> str:
    """Which masters have which image of a row: the one that most have first."""
    parts = [
        f"{_having(row.masters, letter)}: {values(image)}"
        for letter, image in row.images.items()
    ]
    lacking = _having(row.masters, None)
    return "; ".join([*parts, f"{lacking}: no row"] if lacking else parts)


def _having(masters: Mapping[str, str | None], letter: str | None) -> str:
    return ", ".join(name for name, has in masters.items() if has == letter)


def more_of(row: Difference | CheckDifference, written: Callable[[object], str]) -> str:
    """What is known of a row that differs, besides its values and the reason.

    Parameters:
        written: writes a time as the reader expects it.
    """
    parts = [
        row.detail,
        None if row.transaction is None else f"transaction {row.transaction}",
        None if row.since is None else f"since {written(row.since)}",
    ]
    return ", ".join(filter(None, parts))


def rectified(
    report: RectifyReport | GroupRectifyReport, todo: str = ": refresh first"
) -> str:
    """What became of rows that were to be mended, in one sentence.

    Parameters:
        todo: what to do where differences cannot be told.
    """
    if report.dry_run:
        return f"{counted(report.to_mend, 'row')} would be mended."
    if report.unexplained:
        again = "run the command again"
        still = counted(report.unexplained, "row", "differ")
        return f"{still} without a reason still: {again}."
    if report.unproven:
        return f"{counted(report.unproven, 'row', 'differ')} and cannot be told{todo}."
    return f"{counted(report.mended, 'row')} mended."


def differ_still(one: SnapshotRectified | TableRectified) -> str:
    """The rows that differ when it is done, by reason."""
    return ", ".join(f"{c.rows:,} {c.reason.value}" for c in one.still) or "-"
