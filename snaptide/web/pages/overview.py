"""The overview: all sites, how they are, and what waits where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snaptide.doctor.finding import Severity
from snaptide.status import GroupStatus, SiteStatus
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.questions import Answer
from snaptide.web.rendering import within
from snaptide.web.visit import Visit, command, polled

#: Bytes for the lines of a page, and for a line without what it says.
ROOM, MARKUP = 68_000, 230
#: Bytes for an error, and for the name of a group.
ROOM_OF_ERROR, ROOM_OF_NAME = 300, 60
#: So many groups of a site are named.
NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A site on the overview."""

    site: str
    #: up, not ready or away
    state: str
    #: why it is not up
    problem: str = ""
    status: SiteStatus | None = None
    findings: int = 0
    #: the last error of a queue or group
    last_error: str = ""

    @property
    def groups(self) -> Sequence[GroupStatus]:
        """Groups of the site: those with an error first, then as they are stale."""
        every = self.status.groups if self.status else ()
        return sorted(every, key=_by_need)[:NAMED]

    @property
    def more(self) -> int:
        """How many groups it has besides."""
        return max(len(self.status.groups) - NAMED, 0) if self.status else 0

    @property
    def held_back(self) -> int:
        """How many rows the last refreshes of its groups left alone."""
        groups = self.status.groups if self.status else ()
        return sum(sum(group.held_back.values()) for group in groups)


def read(visit: Visit) -> Mapping[str, Any]:
    """Ask all sites, each only about itself."""
    answers = visit.console.states(polled=polled(visit.request))
    lines = [_line(name, answer) for name, answer in answers.items()]
    start = start_of(visit)
    states = [line.status for line in lines if line.status]
    waiting = [one for one in states if one.waited is not None]
    return {
        "lines": lines,
        "shown": listed(
            lines, _texts, start=start, room=ROOM, at_once=len(lines), markup=MARKUP
        ),
        "room": {"error": ROOM_OF_ERROR, "name": ROOM_OF_NAME},
        "again": f"/?from={start}" if start else "/",
        "oldest": max(waiting, key=lambda one: one.waited or 0.0, default=None),
        "parked": sum(one.parked for one in states),
        "command": command("status"),
    }


def _line(site: str, answer: Answer[SiteStatus]) -> Line:
    status = answer.value
    if status is None:
        problem = answer.error.message if answer.error else ""
        return Line(
            site=site, state="away" if answer.away else "not ready", problem=problem
        )
    if status.error:
        return Line(site=site, state="not ready", problem=status.error)
    errors = [
        *(group.last_error for group in status.groups),
        *(queue.last_error for queue in status.backlog),
    ]
    problems = [one for one in status.findings if one.severity is not Severity.INFO]
    return Line(
        site=site,
        state="up",
        status=status,
        findings=len(problems),
        last_error=next((error for error in errors if error), ""),
    )


def _by_need(group: GroupStatus) -> tuple[bool, float, str]:
    """Where a group stands among those of its site, in the eyes of an operator."""
    never = float("inf")
    age = never if group.age is None else group.age
    return not group.last_error, -age, group.name


def _texts(line: Line) -> Iterable[object]:
    yield from (line.site, line.site)
    yield within(line.problem or line.last_error, ROOM_OF_ERROR)
    for group in line.groups:
        # With the markup around it.
        yield from (within(group.name, ROOM_OF_NAME), " " * 45)


PAGE = Page(path="/", template="overview.html", read=read)
