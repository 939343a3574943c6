"""Checks of a group's masters that this console has run: listed, begun, shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import wait
from functools import partial
from typing import Any
from urllib.parse import quote

from groups import CheckDifference, TableCheck
from groups.show import count_groups, find_group
from snaptide.check_words import (
    counts_of,
    images_of,
    meanings,
    more_of,
    said_of_masters,
    values,
)
from snaptide.web.errors import PageMissing
from snaptide.web.group_checks import GroupCheck
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Action, Page
from snaptide.web.pages.group import named
from snaptide.web.questions import PATIENCE
from snaptide.web.rendering import shown
from snaptide.web.visit import Visit, command, polled

#: Bytes for the tables, for masters that were left out, and for the rows.
_OF_TABLES, _OF_LEFT_OUT, _OF_ROWS = 18_000, 5_000, 40_000


#: What is known of a row besides.
_more = partial(more_of, written=shown)


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
        (one.table, row)
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
    lines = [(one, _at(one), *each) for one in tables for each in counts_of(one)]
    left_out = [*report.left_out.items()] if report else []
    return {
        "check": check,
        "report": report,
        "problem": check.answer.error,
        "said": said_of_masters(report) if report else "",
        "chosen": chosen,
        "left_out": listed(left_out, lambda one: one, room=_OF_LEFT_OUT, markup=90),
        "lines": listed(lines, _of_line, room=_OF_TABLES),
        "rows": listed(rows, _of_row, start=start_of(visit), room=_OF_ROWS),
        "not_kept": differ - len(rows),
        "differ": differ,
        "meanings": meanings(tables),
        "values": values,
        "images_of": images_of,
        "more_of": _more,
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


def _at(one: TableCheck) -> str:
    """How many rows each master has."""
    return ", ".join(f"{shown(n)} at {name}" for name, n in one.rows.items())


def _of_line(line: tuple[TableCheck, str, str, str, int]) -> Iterable[object]:
    one, at, *_ = line
    # Its name is shown, and stands in the address of its rows.
    return (*[one.table] * 4, at)


def _of_row(found: tuple[str, CheckDifference]) -> Iterable[object]:
    name, row = found
    return (name, values(row.key), images_of(row), _more(row))


def read_list(visit: Visit) -> Mapping[str, Any]:
    """The checks, and what each found in numbers."""
    group = named(visit)
    found = visit.console.group_checks.of(visit.site, group.name)
    return {
        "group": group,
        "checks": listed(found, _of_check, start=start_of(visit)),
        "command": command("group", "check", visit.site.name, group.name),
    }


def begin(visit: Visit) -> str:
    """Begin to compare all masters of a group; nothing is written."""
    name = str(visit.form.get("name", ""))
    visit.ask(("group", name), partial(find_group, name=name))
    begun = visit.console.group_checks.begin(visit.site, name, visit.user.name)
    return f"/sites/{quote(visit.site.name, safe='')}{_CHECKS}/{begun.number}"


def _of_check(one: GroupCheck) -> Iterable[object]:
    error = one.answer.error
    return (one.user, error.message if error else "")


_CHECKS = "/replication-group/checks"

LIST = Page(
    path="/sites/{site}" + _CHECKS, template="group_checks.html", read=read_list
)

ACTIONS = [Action(path="/sites/{site}" + _CHECKS, run=begin)]

PAGE = Page(
    path="/sites/{site}/replication-group/checks/{id:int}",
    template="group_check.html",
    read=read,
)
