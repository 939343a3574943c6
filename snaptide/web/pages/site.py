"""A site: its queues, refresh groups, schedules, running work, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sites.errors import SiteUnreachable
from snaptide.status import status_of
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
        "site": visit.site.name,
        "status": status,
        "command": command("status", visit.site.name),
    }


PAGE = Page(path="/sites/{site}", template="site.html", read=read)
