"""Coordinated transactions of a site that are in doubt, and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import synchronous
from sites import Site
from snaptide.web.action_log import noted
from snaptide.web.errors import PageMissing
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Action, Page, Shown
from snaptide.web.users import Role
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
        "found": listed(found, _texts, start=start_of(visit)),
        "others": asked.value is not None,
        "ends_of": ends_of,
        "recover": command("indoubt", "recover", name),
        "command": command("indoubt", "list", name),
    }


def recover(visit: Visit) -> str:
    """Finish transactions as their deciding site decided."""
    site = visit.site
    again = command("indoubt", "recover", site.name)
    with noted(site, visit.user, again) as note:
        report = synchronous.recover(site)
        note.outcome = (
            f"{report.committed:,} committed, {report.rolled_back:,} rolled back, "
            f"{report.left:,} left in doubt."
        )
    visit.say(f"{note.outcome} The same: {again}")
    return _page(visit)


def end(visit: Visit) -> str | Shown:
    """End a transaction by hand, after asking: nothing else can undo it.

    Raises:
        NotInDoubt, DecidedOtherwise: then it is as it was.
    """
    site, gid, how = visit.site, visit.sent("gid"), visit.sent("how")
    if how not in _ENDS:
        raise PageMissing("The form does not say what to do.")
    do, done = _ENDS[how]
    again = command("indoubt", how, site.name, gid)
    if visit.sent("sure") != how:
        context = {
            "gid": gid,
            "how": how,
            "meaning": _MEANING[how],
            "wrong": bool(visit.sent("sure")),
            "command": again,
        }
        return Shown(template="end_in_doubt.html", context=context)
    with noted(site, visit.user, again) as note:
        do(site, gid)
        note.outcome = done
    visit.say(f"{note.outcome} The same: {again}")
    return _page(visit)


def ends_of(one: InDoubt) -> Sequence[str]:
    """What a person may do about a transaction."""
    return ("commit", "rollback") if one.state == "prepared" else ("forget",)


#: What a person may do, and what is said when it is done.
_ENDS: Mapping[str, tuple[Callable[[Site, str], None], str]] = {
    "commit": (synchronous.commit_in_doubt, "Committed."),
    "rollback": (synchronous.rollback_in_doubt, "Rolled back."),
    "forget": (synchronous.forget_in_doubt, "Forgotten."),
}
_MEANING = {
    "commit": "Its changes stay at this site, whatever its other sites do. The "
    "deciding site is asked first, and must not say otherwise.",
    "rollback": "Its changes are undone at this site, whatever its other sites do. The "
    "deciding site is asked first, and must not say otherwise.",
    "forget": "A master that comes back later and asks for this decision would roll "
    "its part back.",
}


def _page(visit: Visit) -> str:
    return f"/sites/{visit.site.name}/indoubt"


def _texts(one: InDoubt) -> Sequence[object]:
    # Each button says its name to a screen reader, and the form sends it.
    return (*[one.gid] * 6, one.state, one.since, one.decision, one.heuristic)


_PATH = "/sites/{site}/indoubt"

PAGE = Page(path=_PATH, template="in_doubt.html", read=read)

ACTIONS = [
    Action(path=f"{_PATH}/recover", run=recover),
    Action(path=f"{_PATH}/end", run=end, role=Role.ADMINISTRATOR),
]
