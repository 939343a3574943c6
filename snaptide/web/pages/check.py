"""Saved checks: listed, and what one found, row by row, with why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

import snapshots
from snapshots import CheckReport, Difference, Reason, SnapshotCheck
from snapshots.check.report import ERROR
from snaptide.check_words import counts_of, meanings, more_of, said_of, values
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.rendering import shown
from snaptide.web.visit import Visit, command

#: Bytes for the snapshots, for groups that were not compared, and for the rows.
_OF_SNAPSHOTS, _OF_AWAY, _OF_ROWS = 18_000, 5_000, 40_000


#: What is known of a row besides.
_more = partial(more_of, written=shown)


def read(visit: Visit) -> Mapping[str, Any]:
    """The check; of its rows those of one snapshot, if the address names one."""
    number, chosen = visit.number("id"), visit.query("snapshot")
    report, known = saved(visit), {*visit.console.sites}
    lines = [(one, *each) for one in report.snapshots for each in counts_of(one)]
    rows = [
        (one.name, row, _parked(known, one, row))
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
        "meanings": meanings(report.snapshots),
        "values": values,
        "more_of": _more,
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


def _of_line(line: tuple[SnapshotCheck, str, str, int]) -> Iterable[object]:
    one = line[0]
    # Its name is shown, and stands in the address of its rows.
    return (*[one.name] * 4, one.master, one.table, one.unproven, one.not_carried)


def _of_row(found: tuple[str, Difference, str | None]) -> Iterable[object]:
    name, row, _ = found
    return (name, values(row.key), values(row.master), values(row.here), _more(row))


def read_list(visit: Visit) -> Mapping[str, Any]:
    """The saved checks, without the rows that they list."""
    found = visit.ask("checks", snapshots.list_checks)
    return {
        "checks": listed(
            found,
            lambda check: (names(check), check.where, check.columns),
            start=start_of(visit),
        ),
        "names": names,
        "command": command("check", "list", visit.site.name),
        "to_check": command("check", "run", visit.site.name, "--save"),
    }


def names(check: CheckReport) -> list[str]:
    """The snapshots that were compared."""
    return [one.name for one in check.snapshots]


LIST = Page(path="/sites/{site}/checks", template="checks.html", read=read_list)

PAGE = Page(path="/sites/{site}/checks/{id:int}", template="check.html", read=read)
