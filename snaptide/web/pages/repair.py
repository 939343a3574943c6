"""The repair of a saved check: what would be done, and what was, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import wait
from itertools import chain
from typing import Any

from snapshots import Extra, Missing, PlannedRow, Reference, Take
from snapshots.rectify.choose import Policy
from snaptide.check_words import differ_still, rectified, values
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Action, Page, Shown
from snaptide.web.pages.check import saved
from snaptide.web.questions import PATIENCE
from snaptide.web.repairs import Repair
from snaptide.web.visit import Visit, command, polled

#: Bytes for what is planned of snapshots, what is left, and the rows.
_OF_PLANNED, _OF_LEFT, _OF_ROWS = 12_000, 8_000, 40_000

#: The words among which a form chooses.
CHOICES = {
    "reference": [one.value for one in Reference],
    "extra": [one.value for one in Extra],
    "missing": [one.value for one in Missing],
}


def read(visit: Visit) -> Mapping[str, Any]:
    """The plan, if there is one, and what became of it.

    Raises:
        NoSuchCheck, SiteUnreachable: there is nothing to plan for.
    """
    number = visit.number("id")
    repair = visit.console.repairs.of(visit.site, number)
    if repair is None:
        saved(visit)  # or say that there is none; the page has nothing else of it
    elif not polled(visit.request):
        # Most need no second look.
        wait([repair.latest], timeout=PATIENCE)
    policy = Policy() if repair is None else repair.policy
    return {
        "run": number,
        "policy": policy,
        "choices": CHOICES,
        "repair": repair,
        "wrong": False,
        **_told(visit, repair),
        "repair_command": _command(visit, policy),
    }


def plan(visit: Visit) -> str:
    """Have a plan made; nothing is written."""
    given = {name: visit.sent(name) or getattr(Policy(), name) for name in CHOICES}
    repairs = visit.console.repairs
    repairs.plan(visit.site, visit.number("id"), Policy.of(**given))
    return _page(visit)


def do(visit: Visit) -> str | Shown:
    """Have done what was planned, after asking with the number of its rows."""
    repair = visit.console.repairs.of(visit.site, visit.number("id"))
    if repair is None or visit.sent("plan") != str(repair.number):
        visit.say("Nothing was done: it has been planned anew, or never was.")
        return _page(visit)
    report = repair.report
    if report is None or visit.sent("sure").replace(",", "") != str(report.to_mend):
        return Shown(template=_TEMPLATE, context={**read(visit), "wrong": True})
    visit.console.repairs.begin(repair, visit.user, _command(visit, repair.policy))
    return _page(visit)


def _told(visit: Visit, repair: Repair | None) -> dict[str, Any]:
    """What there is to say of a repair now."""
    ended = repair is not None and repair.latest.done()
    answer = repair.latest.result() if repair and ended else None
    report = answer.value if answer else None
    parts = report.snapshots if report else ()
    planned = [(one.name, each) for one in parts for each in one.planned]
    left = [(one.name, each) for one in parts for each in one.left]
    rows = [row for one in parts for row in one.rows]
    return {
        "running": repair is not None and not ended,
        "problem": answer.error if answer else None,
        "report": report,
        "said": rectified(report) if report else "",
        "planned": listed(planned, _of_planned, room=_OF_PLANNED, markup=250),
        "left": listed(left, _of_planned, room=_OF_LEFT, markup=250),
        "done": listed(
            () if report is None or report.dry_run else parts,
            lambda one: (one.name, differ_still(one)),
            room=_OF_PLANNED,
        ),
        "rows": listed(rows, _of_row, start=start_of(visit), room=_OF_ROWS),
        "nothing": Take.NOTHING,
        "values": values,
        "differ_still": differ_still,
    }


def _of_planned(line: tuple[str, object]) -> Iterable[object]:
    return (line[0],)


def _of_row(row: PlannedRow) -> Iterable[object]:
    return (row.snapshot, values(row.key), values(row.master), values(row.here))


def _command(visit: Visit, policy: Policy) -> str:
    words = (
        (f"--{name}", getattr(policy, name).value)
        for name in CHOICES
        if getattr(policy, name) != getattr(Policy(), name)
    )
    return command("rectify", visit.site.name, visit.number("id"), *chain(*words))


def _page(visit: Visit) -> str:
    return f"/sites/{visit.site.name}/checks/{visit.number('id')}/repair"


_PATH, _TEMPLATE = "/sites/{site}/checks/{id:int}/repair", "repair.html"

PAGE = Page(path=_PATH, template=_TEMPLATE, read=read)

ACTIONS = [
    Action(path=f"{_PATH}/plan", run=plan),
    Action(path=f"{_PATH}/do", run=do),
]
