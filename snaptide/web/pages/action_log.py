"""The log of actions of all sites, the latest first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from snaptide.errors import BadArgument
from snaptide.web.action_log import Place, actions_of, together
from snaptide.web.errors import PageMissing
from snaptide.web.listed import AT_ONCE, listed, problems_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command


def read(visit: Visit) -> Mapping[str, Any]:
    """The latest actions, or those before the one that the address names."""
    before = _place(visit.query("before"))
    answers = visit.console.questions.ask_all(
        visit.console.sites,
        ("actions", before),
        partial(actions_of, most=AT_ONCE, before=before),
    )
    found = together((a.value for a in answers.values() if a.value), AT_ONCE)
    found = found.first(
        len(
            listed(
                found.actions,
                lambda one: (one.operator, one.site, one.command, one.outcome),
            ).rows
        )
    )
    from_ = [] if before is None else ["--before", before]
    return {
        "found": found,
        "more": f"?{urlencode({'before': found.last})}" if found.last else "",
        "problems": problems_of({n: one.error for n, one in answers.items()}),
        "command": command("user", "actions", *from_),
    }


def _place(text: str) -> Place | None:
    try:
        return Place.of(text) if text else None
    except BadArgument:
        raise PageMissing("There is no such part of the log.") from None


PAGE = Page(path="/actions", template="action_log.html", read=read)
