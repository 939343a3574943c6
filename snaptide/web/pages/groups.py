"""The groups of masters that a site belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import groups
from groups import Group
from groups.show import count_groups
from sites import Site
from snaptide.web.listed import AT_ONCE, in_address, listed, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command


def read(visit: Visit) -> Mapping[str, Any]:
    """The groups as the site knows them; no other master is asked."""
    start = start_of(visit)
    count, found = visit.ask(("groups", start), partial(_found, start=start))
    return {
        "found": listed(found, _texts, start=start, total=count),
        "command": command("group", "list", visit.site.name),
    }


def _found(site: Site, start: int) -> tuple[int, Sequence[Group]]:
    some = groups.list_groups(site, settle=False, limit=AT_ONCE, offset=start)
    return count_groups(site), some


def _texts(one: Group) -> Sequence[object]:
    # Its name is shown, and stands in the address of its page.
    name = [one.name, *in_address(one.name)]
    return (*name, one.definition_site, one.names, one.tables, one.status)


PAGE = Page(path="/sites/{site}/replication-groups", template="groups.html", read=read)
