"""A refresh group: its age, last refreshes, snapshots, and rows that it lacks yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

import snapshots
from deferred.schedules import EVERYTHING
from snapshots import PastRefresh, UnknownSnapshot
from snaptide import ways
from snaptide.status import (
    GroupStatus,
    ScheduleStatus,
    SiteStatus,
    refuse_unready,
    status_of,
)
from snaptide.web import ages
from snaptide.web.listed import AT_ONCE, listed, start_of
from snaptide.web.page import Page
from snaptide.web.rendering import shown
from snaptide.web.visit import Visit, command

#: Bytes for the snapshots, for what counts their rows, for those rows, and refreshes.
_OF_SNAPSHOTS, _OF_COUNTS, _OF_ROWS, _OF_REFRESHES = 21_000, 4_000, 17_000, 12_000

#: So many ways of a refresh are shown, and how many others there are.
WAYS = 3

#: Why a refresh looks at a row again, by the word of the updatable snapshot log.
MEANING = {
    "held": "A refresh left the row alone: a user had locked or changed it, or a row "
    "that was left alone has its value, is its parent or its child.",
    "refused": "A trigger, constraint or policy of the site refuses the master's row.",
    "frozen": "The row leaves the snapshot, and may not be changed until it has left.",
    "trigger": "A foreign key's action changed the row during a refresh.",
    "folded": "A purge removed the call of a change that no refresh has shown yet.",
    "synchronous": "A coordinated transaction changed the row.",
    "rectify": "snaptide rectify asks for the row.",
}


def read(visit: Visit) -> Mapping[str, Any]:
    """What the site says of the group; no other site is asked.

    Raises:
        SiteUnreachable: it does not answer.
        UnknownSnapshot: it has no such group.
    """
    site, name = visit.site.name, visit.path["group"]
    status, group = _status(visit, name)
    shown_from, members_from = start_of(visit), start_of(visit, "members")
    refreshes_from = start_of(visit, "refreshes")
    members = visit.ask(
        ("members", name, members_from),
        partial(
            snapshots.list_snapshots, group=name, limit=AT_ONCE, offset=members_from
        ),
    )
    held = visit.ask(
        ("held", name, shown_from),
        partial(snapshots.list_held, group=name, limit=AT_ONCE, offset=shown_from),
    )
    past = visit.ask(("refreshes", name), partial(snapshots.list_refreshes, group=name))
    return {
        "status": status,
        **_age(past, group, status),
        "refreshes": listed(
            past,
            lambda one: (one.outcome, one.methods, one.error, *_ways(one)),
            start=refreshes_from,
            room=_OF_REFRESHES,
            markup=1_000,
        ),
        "ways_of": _ways,
        "also": _others(
            {"from": shown_from, "members": members_from, "refreshes": refreshes_from}
        ),
        "group": group,
        "members": listed(
            members,
            lambda one: (one.name, one.table, one.condition, one.behind),
            start=members_from,
            total=group.snapshots,
            room=_OF_SNAPSHOTS,
        ),
        **_work(status, group),
        "counts": listed(held.counts, lambda one: (one.snapshot,), room=_OF_COUNTS),
        "held": listed(
            held.rows,
            lambda row: (row.snapshot, row.key, row.why),
            start=shown_from,
            total=held.total,
            room=_OF_ROWS,
        ),
        "meanings": {by: MEANING.get(by, "") for by in {o.by for o in held.counts}},
        "to_list": command("snapshot", "held", site, name),
        "to_list_refreshes": command("snapshot", "refreshes", site, name),
        "to_refresh": command("refresh", site, name),
        "command": command("snapshot", "list", site, "--group", name),
    }


def _ways(one: PastRefresh) -> list[str]:
    return ways.said(one.ways, WAYS)


def _status(visit: Visit, name: str) -> tuple[SiteStatus, GroupStatus]:
    status = visit.ask("site", partial(status_of, alone=True))
    refuse_unready(status)
    for group in status.groups:
        if group.name == name:
            return status, group
    raise UnknownSnapshot(f"There is no refresh group {name}.", group=name)


def _work(status: SiteStatus, group: GroupStatus) -> dict[str, Any]:
    """What waits for the group's master, and what runs for the group, or will."""
    return {
        "queue": next(
            (one for one in status.backlog if one.destination == group.master), None
        ),
        "schedules": [one for one in status.schedules if _concerns(one, group)],
        "running": [
            one
            for one in status.activities
            if one.kind in ("refresh", "check") and one.subject == group.name
        ],
    }


def _age(
    past: Sequence[PastRefresh], group: GroupStatus, status: SiteStatus
) -> dict[str, Any]:
    """The age of the group over time, drawn and in words; nothing if it has none."""
    assert status.now is not None
    found = ages.of(past, group.refreshed_at, status.now)
    if found is None:
        return {"ages": None, "drawing": ""}
    start, now = ages.moment(found.start, status.now), shown(status.now)
    return {
        "ages": found,
        "start": start,
        "drawing": Markup(ages.drawn(found, start, now)),
    }


def _others(starts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """By list, the places of the other lists, which its links keep."""
    return {
        name: {other: at for other, at in starts.items() if at and other != name}
        for name in starts
    }


def _concerns(schedule: ScheduleStatus, group: GroupStatus) -> bool:
    """Whether a schedule brings changes to or from the group, or checks it."""
    subjects = {
        "refresh": (group.name,),
        "check": (group.name, EVERYTHING),
        "push": (group.master, EVERYTHING),
    }
    return schedule.subject in subjects.get(schedule.kind, ())


PAGE = Page(
    path="/sites/{site}/groups/{group:path}", template="refresh_group.html", read=read
)
