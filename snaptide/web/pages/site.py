"""A site: its queues, refresh groups, schedules, running work, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sites.errors import SiteUnreachable
from snaptide.status import status_of
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
        "findings": listed(
            status.findings, lambda one: (one.subject, one.what, one.todo), room=12_000
        ),
        "queues": listed(
            status.backlog,
            lambda one: (one.destination, *one.states, one.last_error),
            room=12_000,
        ),
        "groups": listed(
            status.groups,
            lambda one: (one.name, *in_address(one.name), one.master, one.last_error),
            start=start_of(visit),
            room=20_000,
        ),
        "schedules": listed(
            status.schedules,
            lambda one: (one.subject, one.interval, one.last_error),
            room=12_000,
        ),
        "running": listed(status.activities, lambda one: (one.subject,), room=6_000),
        "command": command("status", visit.site.name),
    }


PAGE = Page(path="/sites/{site}", template="site.html", read=read)
