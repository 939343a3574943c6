"""The schedules of a site: when each runs, what went wrong, and run, pause, go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from deferred import runs, schedules
from deferred.interval import next_times
from deferred.runs import Overdue
from deferred.schedules import EVERYTHING, Schedule
from sites import Site
from snaptide.asking import asking
from snaptide.errors import NoBroker
from snaptide.web.action_log import noted
from snaptide.web.errors import PageMissing
from snaptide.web.listed import listed, start_of, whole
from snaptide.web.page import Action, Page
from snaptide.web.visit import Visit, command

#: So many of the next runs are shown.
NEXT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A schedule, and whether it is late."""

    schedule: Schedule
    late: Overdue | None
    #: the same work as a command, which needs no broker
    command: str

    @property
    def name(self) -> str:
        """Kind and subject, as forms send them."""
        return f"{self.schedule.kind} {self.schedule.subject}"

    @property
    def next(self) -> Sequence[datetime]:
        """The times of the next runs."""
        return next_times(self.schedule.interval, self.schedule.next_at, NEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The schedules of a site at one moment."""

    now: datetime
    #: when beat last looked at the site
    looked_at: datetime | None
    lines: Sequence[Line]

    @property
    def beat_is_away(self) -> bool:
        """Whether nothing asks for the runs."""
        return runs.is_away(self.looked_at, self.now)


def read(visit: Visit) -> Mapping[str, Any]:
    """The schedules, and when beat last looked at them."""
    state = visit.ask("schedules", _state)
    return {
        "state": state,
        "lines": listed(state.lines, _texts, start=start_of(visit)),
        "late_by": lambda line: line.late and state.now - line.late.since,
        "has_broker": visit.console.run_schedule is not None,
        "command": command("schedule", "list", visit.site.name),
        "to_schedule": command(
            "schedule", "set", visit.site.name, "purge", "--every", "1d"
        ),
    }


def run(visit: Visit) -> str:
    """Have a worker run a schedule now.

    Raises:
        NoBroker: none is configured, or it does not answer.
        NoSuchSchedule: there is none.
    """
    kind, subject = _chosen(visit)
    if visit.console.run_schedule is None:
        raise NoBroker("No broker is configured, so no worker can be asked.")
    site = visit.site
    again = command("schedule", "run", site.name, kind, subject)
    with noted(site, visit.user, again) as note:
        number = visit.console.run_schedule(site, kind, subject)
        note.outcome = f"Given to the workers as task {number}."
    visit.say(f"{note.outcome} The same: {again}")
    return _page(visit)


def enable(visit: Visit) -> str:
    """Let a schedule run again."""
    return _switch(visit, enabled=True)


def disable(visit: Visit) -> str:
    """Pause a schedule."""
    return _switch(visit, enabled=False)


def _switch(visit: Visit, *, enabled: bool) -> str:
    kind, subject = _chosen(visit)
    site, verb = visit.site, "enable" if enabled else "disable"
    again = command("schedule", verb, site.name, kind, subject)
    with noted(site, visit.user, again) as note:
        schedules.enable_schedule(site, kind, subject, enabled=enabled)
        note.outcome = "It runs again." if enabled else "It is paused."
    visit.say(f"{note.outcome} The same: {again}")
    return _page(visit)


def _state(site: Site) -> State:
    with asking(site) as connection:
        late = {(one.kind, one.subject): one for one in runs.overdue(connection)}
        return State(
            now=connection.execute(select(func.now())).scalar_one(),
            looked_at=runs.last_look(connection),
            lines=[
                Line(
                    schedule=one,
                    late=late.get((one.kind, one.subject)),
                    command=_by_hand(site.name, one),
                )
                for one in schedules.all_of(connection)
            ],
        )


def _by_hand(site: str, one: Schedule) -> str:
    """The command that does the work of a schedule without a worker."""
    verb = {"check": ("check", "run")}.get(one.kind, (one.kind,))
    subject = [] if one.subject == EVERYTHING else [one.subject]
    return command(*verb, site, *subject, *(["--save"] if one.kind == "check" else []))


def _texts(line: Line) -> Iterable[object]:
    one = line.schedule
    # The name is shown, said by each button to a screen reader, and sent by each.
    return (
        *[line.name] * 3,
        *[*whole(line.name)] * 2,
        one.interval,
        one.options,
        one.last_error,
        line.command,
        line.next,
    )


def _chosen(visit: Visit) -> tuple[str, str]:
    kind, blank, subject = visit.sent("of").partition(" ")
    if not blank:
        raise PageMissing("The form does not say which schedule.")
    return kind, subject


def _page(visit: Visit) -> str:
    start = visit.sent("from")
    return f"/sites/{visit.site.name}/schedules" + (
        f"?from={start}" if start.isdecimal() else ""
    )


_PATH = "/sites/{site}/schedules"

PAGE = Page(path=_PATH, template="schedules.html", read=read)

ACTIONS = [
    Action(path=f"{_PATH}/run", run=run),
    Action(path=f"{_PATH}/enable", run=enable),
    Action(path=f"{_PATH}/disable", run=disable),
]
