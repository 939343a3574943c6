"""The checks that were saved at a site, the latest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import snapshots
from snapshots import CheckReport
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command


def read(visit: Visit) -> Mapping[str, Any]:
    """The saved checks, without the rows that they list."""
    found = visit.ask("checks", snapshots.list_checks)
    return {
        "checks": listed(found, _texts, start=start_of(visit)),
        "names": names,
        "command": command("check", "list", visit.site.name),
        "to_check": command("check", "run", visit.site.name, "--save"),
    }


def names(check: CheckReport) -> list[str]:
    """The snapshots that were compared."""
    return [one.name for one in check.snapshots]


def _texts(check: CheckReport) -> Iterable[object]:
    return (names(check), check.where, check.columns)


PAGE = Page(path="/sites/{site}/checks", template="checks.html", read=read)
