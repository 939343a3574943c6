"""Groups of masters: who sends to whom, what waits, is quiet, or may differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

import groups
from groups import Difference, Group, MasterReport, Status, picture
from groups.paths import Path
from groups.relay.holds import message
from groups.show import count_groups, find_group, show_master
from sites import Site
from sites.words import counted
from snaptide.web.errors import PageMissing
from snaptide.web.listed import AT_ONCE, in_address, listed, start_of
from snaptide.web.page import Page
from snaptide.web.rendering import shown
from snaptide.web.visit import Visit, command

#: Bytes for the masters, for why they are quiet, and for the rows that may differ.
ROOM, ROOM_OF_QUIET, ROOM_OF_ROWS = 24_000, 6_000, 14_000
#: The paths in letters are cut after so many characters.
LONGEST = 6_000
#: A drawing of more bytes is left out: nobody could follow its arrows.
ROOM_OF_DRAWING = 14_000


def read(visit: Visit) -> Mapping[str, Any]:
    """The group as the site knows it, and each master's own state."""
    group = named(visit)
    masters = _masters(visit, group)
    different = [(one.master, row) for one in masters for row in one.different]
    quiet = [(one.master, message(one.quiet)) for one in masters if one.quiet]
    return {
        "group": group,
        "quiesced": group.status != Status.NORMAL,
        "masters": listed(masters, partial(_of_master, group), room=ROOM),
        "sends": {one.master: sends(group, one) for one in masters},
        "quiet": listed(quiet, lambda one: one, room=ROOM_OF_QUIET, markup=80),
        "different": listed(different, _of_rows, room=ROOM_OF_ROWS),
        "drawing": drawing(shown(group.name), group.names, group.paths),
        "letters": picture.text(group.names, group.paths),
        "longest": LONGEST,
        "show_paths": command("group", "paths", visit.site.name, group.name),
        "check": command("group", "check", visit.site.name, group.name),
        "command": command("group", "show", visit.site.name, group.name),
    }


def named(visit: Visit) -> Group:
    """The group that the address names, as the site knows it.

    Raises:
        PageMissing, NoSuchGroup: there is none.
    """
    # Not cut, as `query` does: the name may end with a space.
    name = visit.request.query_params.get("name", "")
    if not name:
        raise PageMissing("The address does not name a group.")
    return visit.ask(("group", name), partial(find_group, name=name))


def drawing(title: str, masters: Sequence[str], paths: Sequence[Path]) -> Markup:
    """Masters and their paths as SVG; nothing if there are none, or too many."""
    if not paths:
        return Markup()
    drawn = picture.svg(title, masters, paths)
    fits = len(drawn.encode()) <= ROOM_OF_DRAWING
    return Markup(drawn if fits else "")


def sends(group: Group, one: MasterReport) -> Sequence[str]:
    """Where a master sends changes, and how many calls wait there for it."""
    to = {path.target for path in group.paths if path.local == one.master}
    return [
        f"{name} ({counted(calls, 'call', 'wait')})"
        if (calls := one.waiting.get(name))
        else name
        for name in sorted(to | one.waiting.keys())
    ]


def _masters(visit: Visit, group: Group) -> list[MasterReport]:
    """What the masters say of themselves, each asked for two seconds at most."""
    known = visit.console.sites
    asked = {name: known[name] for name in group.names if name in known}

    def state_of(site: Site) -> MasterReport:
        return show_master(site, group, site.name, settle=False)

    key = ("master", group.id, group.version)
    answers = visit.console.questions.ask_all(asked, key, state_of)
    found = []
    for name in group.names:
        answer = answers.get(name)
        if answer is not None and answer.value is not None:
            found.append(answer.value)
            continue
        error = answer.error if answer is not None else None
        problem = error.message if error else f"No site {name!r} is configured."
        found.append(_silent(group, name, problem))
    return found


def _silent(group: Group, name: str, problem: str) -> MasterReport:
    """A master of which only what the group says is known."""
    return MasterReport(
        master=name,
        target_type=group.master(name).target_type,
        version=None,
        waiting={},
        arrived=(),
        quiet=None,
        problem=problem,
    )


def _of_master(group: Group, one: MasterReport) -> Iterable[object]:
    # Its name is shown, and stands in the address of its page.
    yield from (one.master, one.master, one.target_type, sends(group, one))
    yield from (one.arrived, one.problem)


def _of_rows(found: tuple[str, Difference]) -> Iterable[object]:
    master, row = found
    return (master, row.table, row.rows, row.key, row.why)


def read_list(visit: Visit) -> Mapping[str, Any]:
    """The groups as the site knows them; no other master is asked."""
    start = start_of(visit)
    count, found = visit.ask(("groups", start), partial(_some, start=start))
    return {
        "found": listed(found, _of_group, start=start, total=count),
        "command": command("group", "list", visit.site.name),
    }


def _some(site: Site, start: int) -> tuple[int, Sequence[Group]]:
    some = groups.list_groups(site, settle=False, limit=AT_ONCE, offset=start)
    return count_groups(site), some


def _of_group(one: Group) -> Sequence[object]:
    # Its name is shown, and stands in the address of its page.
    name = [one.name, *in_address(one.name)]
    return (*name, one.definition_site, one.names, one.tables, one.status)


LIST = Page(
    path="/sites/{site}/replication-groups", template="groups.html", read=read_list
)

PAGE = Page(path="/sites/{site}/replication-group", template="group.html", read=read)
