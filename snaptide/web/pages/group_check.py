"""A check of a group's masters: what differs between which of them, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

from groups import CheckDifference, TableCheck
from groups.check.report import CheckReason
from groups.show import count_groups
from snaptide.check_words import (
    MEANING_AT_MASTERS,
    images_of,
    more_of,
    said_of_masters,
    values,
)
from snaptide.web.errors import PageMissing
from snaptide.web.group_checks import GroupCheck
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.questions import PATIENCE
from snaptide.web.rendering import shown
from snaptide.web.visit import Visit, command, polled

#: Bytes for the tables, for masters that were left out, and for the rows.
_OF_TABLES, _OF_LEFT_OUT, _OF_ROWS = 18_000, 5_000, 40_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What was found of a table: all that differs in one way for one reason."""

    table: TableCheck
    kind: str
    reason: str
    rows: int

    @property
    def at(self) -> str:
        """How many rows each master has."""
        return ", ".join(f"{shown(n)} at {name}" for name, n in self.table.rows.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row that is not the same at all masters, as texts."""

    table: str
    difference: CheckDifference

    @property
    def key(self) -> str:
        """What identifies it."""
        return values(self.difference.key)

    @property
    def masters(self) -> str:
        """Which masters have which values."""
        return images_of(self.difference)

    @property
    def more(self) -> str:
        """What is known of it besides."""
        return more_of(self.difference, shown)


def read(visit: Visit) -> Mapping[str, Any]:
    """The check; of its rows those of one table, if the address names one.

    Raises:
        PageMissing, SiteUnreachable: this console has run none of that number.
    """
    check = _known(visit)
    if not polled(visit.request):
        # Most need no second look.
        wait([check.result], timeout=PATIENCE)
    report, chosen = check.answer.value, visit.query("table")
    tables = report.tables if report else ()
    rows = [
        Row(table=one.table, difference=row)
        for one in tables
        if chosen in ("", one.table)
        for row in one.differences
    ]
    differ = sum(
        count.rows
        for one in tables
        if chosen in ("", one.table)
        for count in one.counts
    )
    left_out = [*report.left_out.items()] if report else []
    return {
        "check": check,
        "report": report,
        "problem": check.answer.error,
        "said": said_of_masters(report) if report else "",
        "chosen": chosen,
        "left_out": listed(left_out, lambda one: one, room=_OF_LEFT_OUT, markup=90),
        "lines": listed([*_lines(tables)], _of_line, room=_OF_TABLES),
        "rows": listed(rows, _of_row, start=start_of(visit), room=_OF_ROWS),
        "not_kept": differ - len(rows),
        "differ": differ,
        "meanings": _meanings(tables),
        "mend": command("group", "rectify", visit.site.name, check.group),
        "command": command("group", "check", visit.site.name, check.group),
    }


def _known(visit: Visit) -> GroupCheck:
    number = visit.number("id")
    check = visit.console.group_checks.find(visit.site, number)
    if check is None:
        visit.ask("count groups", count_groups)  # or say first that it is away
        raise PageMissing(f"This console has run no check {number} of masters.")
    return check


def _lines(tables: Iterable[TableCheck]) -> Iterator[Line]:
    for one in tables:
        if one.equal:
            yield Line(table=one, kind="-", reason="equal", rows=0)
        for count in one.counts:
            yield Line(
                table=one,
                kind=count.kind.value,
                reason=count.reason.value,
                rows=count.rows,
            )


def _meanings(tables: Iterable[TableCheck]) -> Mapping[str, str]:
    """What the reasons mean that the check found."""
    seen = {count.reason for one in tables for count in one.counts}
    return {one.value: MEANING_AT_MASTERS[one] for one in CheckReason if one in seen}


def _of_line(line: Line) -> Iterable[object]:
    # Its name is shown, and stands in the address of its rows.
    return (*[line.table.table] * 4, line.at)


def _of_row(row: Row) -> Iterable[object]:
    return (row.table, row.key, row.masters, row.more)


PAGE = Page(
    path="/sites/{site}/replication-group/checks/{id:int}",
    template="group_check.html",
    read=read,
)
