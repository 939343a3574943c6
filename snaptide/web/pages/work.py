"""The work at all sites: beat, what runs, what nobody has begun, and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from snaptide.web.listed import listed, problems_of, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command
from snaptide.work import Run, work_at

#: So many bytes of a page are for the sites, and for each of the other lists.
ROOM_OF_SITES, ROOM = 40_000, 9_000
#: A line of the sites, without their names.
MARKUP = 300


def read(visit: Visit) -> Mapping[str, Any]:
    """The work of the sites that answer, by the databases alone."""
    answers = visit.console.questions.ask_all(visit.console.sites, "work", work_at)
    found = {n: one.value for n, one in answers.items() if one.value is not None}
    runs = [(name, one) for name, work in found.items() for one in work.runs]
    asked = [(name, one) for name, work in found.items() for one in work.asked]
    blocked = [(name, one) for name, work in found.items() for one in work.blocked]
    return {
        "sites": listed(
            [*found.items()],
            lambda found: (found[0], found[0]),
            start=start_of(visit),
            room=ROOM_OF_SITES,
            at_once=len(found),
            markup=MARKUP,
        ),
        "works": found,
        "runs": listed(runs, _of_run, room=ROOM),
        "asked": listed(
            asked,
            lambda found: (found[0], found[0], found[1].subject),
            room=ROOM,
            total=sum(one.all_asked for one in found.values()),
        ),
        "blocked": listed(
            blocked,
            lambda found: (found[0], found[1].user, found[1].program),
            room=ROOM,
        ),
        "problems": problems_of({n: one.error for n, one in answers.items()}),
        "worker": command("worker"),
        "beat": command("beat"),
        "command": command("status"),
    }


def _of_run(found: tuple[str, Run]) -> Iterable[object]:
    site, one = found
    return (site, site, one.subject, one.machine)


PAGE = Page(path="/work", template="work.html", read=read)
