"""The error queues of all sites: how many transactions are parked where, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import deferred
from deferred import ErrorTransaction
from snaptide.web.page import Page
from snaptide.web.visit import Visit


def read(visit: Visit) -> Mapping[str, Any]:
    """Count what is parked at each site."""
    answers = visit.console.questions.ask_all(
        visit.console.sites, "errors", deferred.list_errors
    )
    return {
        "queues": {
            site: _counted(answer.value)
            for site, answer in answers.items()
            if answer.value is not None
        },
        "problems": {
            site: answer.error
            for site, answer in answers.items()
            if answer.error is not None
        },
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


PAGE = Page(path="/errors", template="error_queues.html", read=read)
