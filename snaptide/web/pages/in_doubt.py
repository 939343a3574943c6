"""Coordinated transactions of a site that are in doubt, and who decides them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import synchronous
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command
from synchronous import InDoubt


def read(visit: Visit) -> Mapping[str, Any]:
    """What is in doubt; without the answers of other sites if they take too long.

    Raises:
        SiteUnreachable: the site itself does not answer.
    """
    name = visit.site.name
    asked = visit.console.questions.ask_all(
        {name: visit.site}, "in doubt", synchronous.list_in_doubt
    )[name]
    found = asked.value
    if found is None:
        alone = partial(synchronous.list_in_doubt, ask=False)
        found = visit.ask("in doubt here", alone)
    return {
        "site": name,
        "found": listed(found, _texts, start=start_of(visit)),
        "others": asked.value is not None,
        "recover": command("indoubt", "recover", name),
        "command": command("indoubt", "list", name),
    }


def _texts(one: InDoubt) -> Sequence[object]:
    return (one.gid, one.state, one.since, one.decision, one.heuristic)


PAGE = Page(path="/sites/{site}/indoubt", template="in_doubt.html", read=read)
