"""A site: its queues, refresh groups, schedules, running work, and what to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from deferred import Backlog
from sites.errors import SiteUnreachable
from snaptide.doctor import Finding
from snaptide.status import GroupStatus, ScheduleStatus, status_of
from snaptide.web.listed import in_address, listed, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command


def read(visit: Visit) -> Mapping[str, Any]:
    """What the site says of itself; no other site is asked.

    Raises:
        SiteUnreachable: it does not answer.
    """
    status = visit.ask("site", partial(status_of, alone=True))
    if not status.reachable:
        raise SiteUnreachable(status.error)
    return {
        "status": status,
        "findings": listed(status.findings, _of_finding, room=12_000),
        "queues": listed(status.backlog, _of_queue, room=12_000),
        "groups": listed(status.groups, _of_group, start=start_of(visit), room=20_000),
        "schedules": listed(status.schedules, _of_schedule, room=12_000),
        "running": listed(status.activities, lambda one: (one.subject,), room=6_000),
        "command": command("status", visit.site.name),
    }


def _of_finding(one: Finding) -> Iterable[object]:
    return (one.subject, one.what, one.todo)


def _of_queue(one: Backlog) -> Iterable[object]:
    return (one.destination, *one.states, one.last_error)


def _of_group(one: GroupStatus) -> Iterable[object]:
    return (one.name, *in_address(one.name), one.master, one.last_error)


def _of_schedule(one: ScheduleStatus) -> Iterable[object]:
    return (one.subject, one.interval, one.last_error)


PAGE = Page(path="/sites/{site}", template="site.html", read=read)
