"""The error queues of all sites: how many transactions are parked where, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import deferred
from deferred import ErrorTransaction
from snaptide.web.listed import in_address, listed, problems_of, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit


def read(visit: Visit) -> Mapping[str, Any]:
    """Count what is parked at each site."""
    answers = visit.console.questions.ask_all(
        visit.console.sites, "errors", deferred.list_errors
    )
    found = [
        (site, one)
        for site, answer in answers.items()
        for one in _counted(answer.value or [])
    ]
    return {
        "queues": listed(found, _texts, start=start_of(visit)),
        "problems": problems_of({n: one.error for n, one in answers.items()}),
    }


def _counted(errors: list[ErrorTransaction]) -> list[Mapping[str, Any]]:
    """By origin and reason: how many, and since when."""
    counts = Counter((one.origin, one.reason) for one in errors)
    oldest = {(e.origin, e.reason): e for e in reversed(errors)}
    return [
        {
            "origin": origin,
            "reason": reason,
            "count": count,
            "since": oldest[origin, reason].parked_at,
        }
        for (origin, reason), count in sorted(counts.items())
    ]


def _texts(found: tuple[str, Mapping[str, Any]]) -> Iterable[object]:
    site, one = found
    # The origin is shown, and stands in an address.
    return (site, site, one["origin"], *in_address(one["origin"]))


PAGE = Page(path="/errors", template="error_queues.html", read=read)
