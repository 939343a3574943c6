"""The overview: all sites, how they are, and what waits where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snaptide.doctor.finding import Severity
from snaptide.status import SiteStatus
from snaptide.units import duration
from snaptide.web.listed import in_address, listed, start_of
from snaptide.web.page import Page
from snaptide.web.questions import Answer
from snaptide.web.rendering import within
from snaptide.web.visit import Visit, command, polled

#: Bytes for the lines of a page, for a line, and for links to a group and elsewhere,
#: each without what it says.
ROOM, MARKUP, OF_GROUP, OF_LINK = 75_000, 195, 50, 50
#: Bytes for an error, and for the name of a group.
ROOM_OF_ERROR, ROOM_OF_NAME = 300, 60
#: So many groups of a site are named.
NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A refresh group of a site, as the overview names it."""

    name: str
    age: float | None
    #: rows that its last refresh left alone
    held_back: int
    #: what is wrong with it, in a few words
    wrong: Sequence[str]

    @property
    def said(self) -> str:
        """What its link says after the name."""
        held = [f"{self.held_back:,} held back"] if self.held_back else []
        return ", ".join([duration(self.age), *held, *self.wrong])

    @property
    def place(self) -> tuple[bool, float, str]:
        """Where it stands among those of its site, in the eyes of an operator."""
        never = float("inf")
        return not self.wrong, -(never if self.age is None else self.age), self.name


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
    def groups(self) -> Sequence[Named]:
        """Groups of the site: those with something wrong first, then the oldest."""
        if self.status is None:
            return ()
        every = _named(self.status)
        return sorted(every, key=lambda one: one.place)[:NAMED]

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


def _named(status: SiteStatus) -> Iterable[Named]:
    """The groups, each with its schedule and what keeps changes from its master."""
    schedules = {one.subject: one for one in status.schedules if one.kind == "refresh"}
    closed = {
        one.destination: [
            f"{one.destination} {at.state}" for at in one.states if at.state in _CLOSED
        ]
        for one in status.backlog
    }
    for group in status.groups:
        schedule = schedules.get(group.name)
        failed = group.last_error or (schedule and schedule.last_error)
        late = schedule is not None and schedule.overdue > 0
        yield Named(
            name=group.name,
            age=group.age,
            held_back=sum(group.held_back.values()),
            wrong=[
                *(["failed"] if failed else ()),
                *(["overdue"] if late else ()),
                *closed.get(group.master, ()),
            ],
        )


#: States in which changes do not reach a master. A join ends by itself.
_CLOSED = ("disabled", "invalid")


def _texts(line: Line) -> Iterable[object]:
    yield from [line.site] * 3
    yield within(line.problem or line.last_error, ROOM_OF_ERROR)
    for wanted in (line.status and line.status.parked, line.findings):
        if wanted:
            yield from (line.site, line.site, " " * OF_LINK)
    for group in line.groups:
        yield from (line.site, line.site, *[*in_address(group.name)] * 2)
        yield from (within(group.name, ROOM_OF_NAME), group.said, " " * OF_GROUP)


PAGE = Page(path="/", template="overview.html", read=read)
