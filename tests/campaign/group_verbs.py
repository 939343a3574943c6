"""What may be interrupted where several masters share tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import deferred
import groups
from deferred.pushing.push import destinations
from groups.change import administered
from groups.group import Group, Status
from groups.unfinished import finish
from sites import Directory, Site
from tests.campaign.verbs import VERBS, Verb
from tests.grouped import GROUP, broken_off_at, without
from tests.linked_table import run

TABLES = ("account", "booking", "note", "dispute")
#: Masters at all times; the first is the master definition site and hub of a star.
MASTERS = ("hq", "lax", "bos")
#: A master that comes and goes; it has no users.
GUEST = "den"


def _push_from(site: Site, push: Callable[..., object] = deferred.push) -> None:
    """Push all that a site has for others, to each of them."""
    for to in destinations(site):
        push(site, to)


def _write(sites: Directory) -> None:
    run(
        sites["lax"],
        "INSERT INTO public.note (id, words) SELECT m + g, 'note ' || m + g"
        " FROM (SELECT max(id) FROM public.note) n (m), generate_series(1, 10) g",
        "UPDATE public.note SET words = words || '.' WHERE id < 5",
    )


def _push(sites: Directory) -> None:
    """Push so much together that it is compiled, from one master to others."""
    for _ in range(3):
        _write(sites)
    _push_from(sites["lax"])


def _push_one_by_one(sites: Directory) -> None:
    _write(sites)
    _push_from(sites["lax"], partial(deferred.push, group_max_calls=0))


def _send_on(sites: Directory) -> None:
    """Have the hub send on what came from a site, and in a star from a master."""
    _push_from(sites["hq"])


def _come(sites: Directory) -> None:
    _push(sites)
    VERBS["push"].run(sites)


def _group(sites: Directory) -> Group:
    return administered(sites["hq"], GROUP)


def _is_star(group: Group) -> bool:
    return any(path.local != path.source for path in group.paths)


def _suspend(sites: Directory) -> None:
    groups.suspend(sites["hq"], GROUP)


def _resume(sites: Directory) -> None:
    groups.resume(sites["hq"], GROUP)


def _suspend_and_resume(sites: Directory) -> None:
    _suspend(sites)
    _resume(sites)


def _other_paths(sites: Directory) -> None:
    """Make a star of a full mesh, or a mesh of a star, of a group that is at rest."""
    if _group(sites).status is not Status.QUIESCED:
        _suspend(sites)
    star = partial(groups.star, hub="hq")
    shape = groups.full_mesh if _is_star(_group(sites)) else star
    groups.set_paths(sites["hq"], GROUP, shape)
    _resume(sites)


def _add_column(sites: Directory) -> None:
    [[count]] = run(
        sites["hq"],
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'public.note'::regclass",
    )
    ddl = f"ALTER TABLE note ADD COLUMN more_{count} int"
    groups.execute_ddl(sites["hq"], GROUP, ddl)


def _join(sites: Directory) -> None:
    """Have the guest be a master, with the rows of one that is not the hub."""
    group = _group(sites)
    if GUEST in group.names and group.master(GUEST).joined:
        # As a worker does every minute: no command comes to them any more.
        for name in group.names:
            finish(sites[name])
        return
    via = "hq" if _is_star(group) else None
    groups.join_master(sites["hq"], GROUP, GUEST, source="lax", via=via)


def _leave(sites: Directory) -> None:
    """Have the guest be no master, and its tables be empty."""
    if GUEST in _group(sites).names:
        _suspend(sites)
        groups.remove_master(sites["hq"], GROUP, GUEST)
    _resume(sites)
    run(sites[GUEST], *(f"DELETE FROM public.{one}" for one in reversed(TABLES)))


def _join_half(sites: Directory) -> None:
    _leave(sites)
    with broken_off_at("group_join.after_copy"):
        _join(sites)


def _switch(sites: Directory, to: str = "hq") -> None:
    """Have the books of a site refreshed from another master."""
    [(now,)] = run(
        sites["sfo"], "SELECT master FROM snaptide.refresh_group WHERE name = 'books'"
    )
    if now != to:
        groups.switch_master(sites["sfo"], "books", to=to)


def _switch_without(sites: Directory) -> None:
    """Have them refreshed from another master when the former one is not there."""
    with without(sites, "lax") as left:
        _switch(left)


def _switch_back(sites: Directory) -> None:
    _switch(sites, to="lax")


_CHANGE = ("group.after_prepare", "group.after_decision", "group.before_branch")

#: Of a push to a master that sends on what comes, perhaps as the hub of a star. It
#: applies each transaction by itself, so that no group of them is shipped.
_TO_BE_SENT_ON = tuple(p for p in VERBS["push"].points if p != "push.after_group_ship")

VERBS_OF_MASTERS: Mapping[str, Verb] = {
    "push": Verb(run=_push, points=_TO_BE_SENT_ON, servers=MASTERS),
    "push one by one": Verb(
        run=_push_one_by_one, points=VERBS["push one by one"].points, servers=MASTERS
    ),
    "send on": Verb(
        prepare=_come, run=_send_on, points=VERBS["push"].points, servers=MASTERS
    ),
    "push of a site": replace(
        VERBS["push"], servers=("hq", "jfk"), points=_TO_BE_SENT_ON
    ),
    "refresh": replace(VERBS["refresh"], servers=("hq", "jfk")),
    "retry": replace(VERBS["retry"], servers=("hq",)),
    "suspend": Verb(run=_suspend_and_resume, points=_CHANGE, servers=MASTERS),
    "paths": Verb(prepare=_suspend, run=_other_paths, points=_CHANGE, servers=MASTERS),
    "ddl": Verb(run=_add_column, points=_CHANGE, servers=MASTERS),
    "join": Verb(
        prepare=_leave,
        run=_join,
        points=(
            *_CHANGE,
            "group_join.after_begin",
            "group_join.after_stretch",
            "group_join.after_copy",
        ),
        servers=MASTERS,
        spark=True,
    ),
    "join again": Verb(
        prepare=_join_half,
        run=_join,
        points=("group_join.after_empty",),
        servers=MASTERS,
        spark=True,
    ),
    "switch": Verb(
        prepare=_switch_back,
        run=_switch,
        points=(
            "switch.after_register",
            "switch.after_level",
            "switch.before_commit",
            "switch.after_commit",
            "former.before_tell",
        ),
        servers=("hq", "lax", "jfk"),
        spark=True,
    ),
    "switch from the lost": Verb(
        prepare=_switch_back,
        run=_switch_without,
        points=("switch.after_watch", "switch.before_commit", "switch.after_commit"),
        servers=("hq", "jfk"),
    ),
}
