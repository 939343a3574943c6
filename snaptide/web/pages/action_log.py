"""The log of actions of all sites, the latest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from snaptide.web.action_log import NotedAction, actions_of
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit

#: So many actions are shown, in parts.
MOST = 100


def read(visit: Visit) -> Mapping[str, Any]:
    """The latest actions."""
    answers = visit.console.questions.ask_all(
        visit.console.sites, "actions", partial(actions_of, most=MOST)
    )
    found = [action for answer in answers.values() for action in answer.value or ()]
    found.sort(key=lambda action: action.begun_at, reverse=True)
    return {
        "actions": listed(found[:MOST], _texts, start=start_of(visit)),
        "problems": {
            site: answer.error
            for site, answer in answers.items()
            if answer.error is not None
        },
    }


def _texts(one: NotedAction) -> Iterable[object]:
    return (one.operator, one.site, one.command, one.outcome)


PAGE = Page(path="/actions", template="action_log.html", read=read)
