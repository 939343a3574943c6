"""A site: queues, refresh groups, what it has for others, schedules, running work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sites.errors import SiteUnreachable
from snaptide.for_sites import GrantStatus, PublicationStatus
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
            status.findings, lambda one: (one.subject, one.what, one.todo), room=10_000
        ),
        "queues": listed(
            status.backlog,
            lambda one: (one.destination, *one.states, one.last_error),
            room=10_000,
        ),
        "groups": listed(
            status.groups,
            lambda one: (one.name, *in_address(one.name), one.master, one.last_error),
            start=start_of(visit),
            room=18_000,
        ),
        "schedules": listed(
            status.schedules,
            lambda one: (one.subject, one.interval, one.last_error),
            room=10_000,
        ),
        "contracts": listed(
            status.contracts,
            lambda one: (one.site, one.group, one.reason),
            room=6_000,
        ),
        "grants": listed(_granted(status.publications), _said_of, room=6_000),
        "images": listed(status.images, lambda one: (one.name, one.tables), room=4_000),
        "running": listed(status.activities, lambda one: (one.subject,), room=5_000),
        "command": command("status", visit.site.name),
    }


def _granted(
    found: Sequence[PublicationStatus],
) -> list[tuple[PublicationStatus, GrantStatus | None]]:
    """Each grant with its publication; None if it is granted to no site."""
    return [(one, grant) for one in found for grant in one.grants or (None,)]


def _said_of(row: tuple[PublicationStatus, GrantStatus | None]) -> tuple[object, ...]:
    one, grant = row
    said = (grant.site, grant.parameters, grant.login) if grant else ()
    return one.name, one.tables, *said


PAGE = Page(path="/sites/{site}", template="site.html", read=read)
