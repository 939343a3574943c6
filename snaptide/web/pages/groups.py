"""The groups of masters that a site belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import groups
from groups import Group
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command


def read(visit: Visit) -> Mapping[str, Any]:
    """The groups as the site knows them; no other master is asked."""
    found = visit.ask("groups", partial(groups.list_groups, settle=False))
    return {
        "site": visit.site.name,
        "found": listed(found, _texts, start=start_of(visit)),
        "command": command("group", "list", visit.site.name),
    }


def _texts(one: Group) -> Sequence[object]:
    # Its name is shown, and stands in the address of its page.
    name = [one.name] * 3
    return (*name, one.definition_site, one.names, one.tables, one.status)


PAGE = Page(path="/sites/{site}/replication-groups", template="groups.html", read=read)
