"""The checks of a group's masters that this console has run, the latest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from groups.show import find_group
from snaptide.web.group_checks import GroupCheck
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Action, Page
from snaptide.web.pages.group import named
from snaptide.web.visit import Visit, command


def read(visit: Visit) -> Mapping[str, Any]:
    """The checks, and what each found in numbers."""
    group = named(visit)
    found = visit.console.group_checks.of(visit.site, group.name)
    return {
        "group": group,
        "checks": listed(found, _texts, start=start_of(visit)),
        "command": command("group", "check", visit.site.name, group.name),
    }


def begin(visit: Visit) -> str:
    """Begin to compare all masters of a group; nothing is written."""
    name = str(visit.form.get("name", ""))
    visit.ask(("group", name), partial(find_group, name=name))
    begun = visit.console.group_checks.begin(visit.site, name, visit.user.name)
    return f"/sites/{quote(visit.site.name, safe='')}{_CHECKS}/{begun.number}"


def _texts(one: GroupCheck) -> Iterable[object]:
    error = one.answer.error
    return (one.user, error.message if error else "")


_CHECKS = "/replication-group/checks"

PAGE = Page(path="/sites/{site}" + _CHECKS, template="group_checks.html", read=read)

ACTIONS = [Action(path="/sites/{site}" + _CHECKS, run=begin)]
