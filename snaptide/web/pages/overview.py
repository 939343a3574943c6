"""The overview: all sites, how they are, and what waits where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from snaptide.doctor.finding import Severity
from snaptide.status import SiteStatus
from snaptide.web.page import Page
from snaptide.web.questions import Answer
from snaptide.web.visit import Visit, command


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A site on the overview."""

    site: str
    #: up, not ready or away
    state: str
    #: why it is not up
    problem: str = ""
    status: SiteStatus | None = None
    queued: int = 0
    oldest: datetime | None = None
    findings: int = 0
    #: the last error of a queue or group
    last_error: str = ""

    @property
    def waited(self) -> timedelta | None:
        """How long the oldest unanswered change has waited, by the site's clock."""
        if self.oldest is None or self.status is None or self.status.now is None:
            return None
        return self.status.now - self.oldest


def read(visit: Visit) -> Mapping[str, Any]:
    """Ask all sites, each only about itself."""
    answers = visit.console.states()
    lines = [_line(name, answer) for name, answer in answers.items()]
    waiting = [line for line in lines if line.waited is not None]
    return {
        "lines": lines,
        "oldest": max(waiting, key=_waited, default=None),
        "parked": sum(line.status.parked for line in lines if line.status),
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
        state = "not ready" if status.reachable else "away"
        return Line(site=site, state=state, problem=status.error)
    errors = [
        *(group.last_error for group in status.groups),
        *(queue.last_error for queue in status.backlog),
    ]
    problems = [one for one in status.findings if one.severity is not Severity.INFO]
    return Line(
        site=site,
        state="up",
        status=status,
        queued=sum(queue.transactions for queue in status.backlog),
        oldest=min((q.oldest for q in status.backlog if q.oldest), default=None),
        findings=len(problems),
        last_error=next((error for error in errors if error), ""),
    )


def _waited(line: Line) -> timedelta:
    return line.waited or timedelta()


PAGE = Page(path="/", template="overview.html", read=read)
