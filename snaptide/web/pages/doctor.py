"""What is wrong at a site: at once what status knows, and all of it when asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any

from sites import Site
from sites.errors import SiteUnreachable
from snaptide import doctor
from snaptide.doctor import Finding, Severity
from snaptide.status import status_of
from snaptide.web.listed import Listed, listed
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command

#: Seconds that a page waits for an examination.
PATIENCE = 30.0


def read(visit: Visit) -> Mapping[str, Any]:
    """The findings: what has stopped, or if the address asks for it, all of them.

    Raises:
        SiteUnreachable: the site does not answer.
    """
    asked = visit.query("examine") == "now"
    found = _examined(visit) if asked else _known(visit)
    return {
        "asked": asked,
        "patience": PATIENCE,
        "findings": None if found is None else _sorted(found),
        "counts": Counter(one.severity.value for one in found or ()),
        "command": command("doctor", visit.site.name),
    }


def _known(visit: Visit) -> Sequence[Finding]:
    """What status finds, which asks no other site and looks at no table."""
    status = visit.ask("site", partial(status_of, alone=True))
    if not status.reachable:
        raise SiteUnreachable(status.error)
    return status.findings


def _examined(visit: Visit) -> Sequence[Finding] | None:
    """All findings; None if the examination takes longer than a page waits."""
    asked = visit.console.examinations.begin(visit.site, "doctor", _examine)
    wait([asked], timeout=PATIENCE)
    if not asked.done():
        return None
    answer = asked.result()
    if answer.error is not None:
        raise answer.error
    return answer.value


def _examine(site: Site) -> Sequence[Finding]:
    found = doctor.examine(site, informed=True)
    if [one.subject for one in found] == [SiteUnreachable.code]:
        raise SiteUnreachable(found[0].what, site=site.name)
    return found


def _sorted(found: Sequence[Finding]) -> Listed[Finding]:
    """The findings, the worst first."""
    order = list(Severity)
    return listed(
        sorted(found, key=lambda one: order.index(one.severity)),
        lambda one: (one.site, one.subject, one.what, one.todo),
    )


PAGE = Page(path="/sites/{site}/doctor", template="doctor.html", read=read)
