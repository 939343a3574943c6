"""A saved check: what it found of each snapshot, and the rows that differ, with why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import snapshots
from snapshots import CheckReport, Difference, Reason, SnapshotCheck
from snapshots.check.report import ERROR
from snaptide.check_words import (
    MEANING,
    more_of,
    not_carried,
    said_of,
    values,
    without_differences,
)
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.rendering import shown
from snaptide.web.visit import Visit, command

#: Bytes for the snapshots, for groups that were not compared, and for the rows.
_OF_SNAPSHOTS, _OF_AWAY, _OF_ROWS = 18_000, 5_000, 40_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What was found of a snapshot: all that differs in one way for one reason."""

    snapshot: SnapshotCheck
    kind: str
    reason: str
    rows: int

    @property
    def not_carried(self) -> str:
        """The columns of the master table that the snapshot does not have."""
        return not_carried(self.snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row that differs, as texts."""

    snapshot: str
    difference: Difference
    #: the page of the parked transaction that explains it
    parked: str | None = None

    @property
    def key(self) -> str:
        """What identifies it."""
        return values(self.difference.key)

    @property
    def master(self) -> str:
        """Its values at the master."""
        return values(self.difference.master)

    @property
    def here(self) -> str:
        """Its values at the site."""
        return values(self.difference.here)

    @property
    def more(self) -> str:
        """What is known of it besides."""
        return more_of(self.difference, shown)


def read(visit: Visit) -> Mapping[str, Any]:
    """The check; of its rows those of one snapshot, if the address names one."""
    number, chosen = visit.number("id"), visit.query("snapshot")
    report, known = saved(visit), {*visit.console.sites}
    lines = [line for one in report.snapshots for line in _lines(one)]
    rows = [
        Row(snapshot=one.name, difference=row, parked=_parked(known, one, row))
        for one in report.snapshots
        if chosen in ("", one.name)
        for row in one.differences
    ]
    differ = sum(
        count.rows
        for one in report.snapshots
        if chosen in ("", one.name)
        for count in one.counts
    )
    return {
        "check": report,
        "said": said_of(report),
        "chosen": chosen,
        "away": listed(
            [*report.away.items()], lambda one: one, room=_OF_AWAY, markup=90
        ),
        "lines": listed(lines, _of_line, room=_OF_SNAPSHOTS),
        "rows": listed(rows, _of_row, start=start_of(visit), room=_OF_ROWS),
        "not_kept": differ - len(rows),
        "meanings": _meanings(report),
        "mend": command("rectify", visit.site.name, number),
        "command": command("check", "show", visit.site.name, number),
    }


def saved(visit: Visit) -> CheckReport:
    """The check that the address names, with the rows that it lists.

    Raises:
        NoSuchCheck, SiteUnreachable: it cannot be had.
    """
    number = visit.number("id")
    return visit.ask(("check", number), partial(snapshots.show_check, run=number))


def _parked(known: Collection[str], one: SnapshotCheck, row: Difference) -> str | None:
    """The page of the parked transaction, if the console knows the master."""
    if row.reason is not Reason.PARKED or one.master not in known:
        return None
    number = (row.detail or "").removeprefix(ERROR)
    return f"/sites/{one.master}/errors/{number}" if number.isdecimal() else None


def _lines(one: SnapshotCheck) -> Iterator[Line]:
    if not one.counts:
        yield Line(snapshot=one, kind="-", reason=without_differences(one), rows=0)
    for count in one.counts:
        yield Line(
            snapshot=one,
            kind=count.kind.value,
            reason=count.reason.value,
            rows=count.rows,
        )


def _meanings(report: CheckReport) -> Mapping[str, str]:
    """What the reasons mean that the check found."""
    seen = {count.reason for one in report.snapshots for count in one.counts}
    return {reason.value: MEANING[reason] for reason in Reason if reason in seen}


def _of_line(line: Line) -> Iterable[object]:
    one = line.snapshot
    # Its name is shown, and stands in the address of its rows.
    return (*[one.name] * 4, one.master, one.table, one.unproven, line.not_carried)


def _of_row(row: Row) -> Iterable[object]:
    return (row.snapshot, row.key, row.master, row.here, row.more)


PAGE = Page(path="/sites/{site}/checks/{id:int}", template="check.html", read=read)
