"""What may be under way at once in a world of clashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

import deferred
import groups
import masters
import snapshots
from deferred.pushing.push import destinations
from groups.group import Status, get
from sites import Directory, Site
from snapshots.definitions.errors import UnknownSnapshot
from tests.linked_table import run

GROUP, BOOKS = "sales", "books"
MASTERS, SITE = ("a", "b"), "s"
#: Conditions of a snapshot; a row of the kind "a" is in all of them.
CONDITIONS = (None, "kind <> 'b'", "kind <> 'c'")

Verb = Callable[[Directory], object]


def master_of(site: Site) -> str:
    """Which master a site's snapshots have now."""
    [(found,)] = run(
        site, f"SELECT master FROM snaptide.refresh_group WHERE name = '{BOOKS}'"
    )
    return str(found)


def is_synchronous(site: Site) -> bool:
    """Whether changes of a site go to its master in the user's own transaction."""
    [(found,)] = run(
        site, f"SELECT synchronous FROM snaptide.refresh_group WHERE name = '{BOOKS}'"
    )
    return bool(found)


def push_from(site: Site, group_max_calls: int = 10_000) -> None:
    """Push all that a site has for others, to each of them."""
    for to in destinations(site):
        deferred.push(site, to, group_max_calls=group_max_calls)


def _refresh(sites: Directory, method: str = "?", *, push: bool = True) -> None:
    snapshots.refresh(
        sites[SITE],
        BOOKS,
        method=method,
        push_deferred_rpc=push,
        allow_mass_delete=True,
    )


def create_note(sites: Directory, condition: str | None = None) -> None:
    """Create the snapshot that comes and goes, unless it is there."""
    site = sites[SITE]
    if "note" in {one.name for one in snapshots.list_snapshots(site)}:
        return
    snapshots.create(
        site,
        "note",
        master=master_of(site),
        group=BOOKS,
        where=condition,
        columns=["id", "kind", "words"],
        updatable=True,
    )


def _drop_note(sites: Directory) -> None:
    snapshots.drop(sites[SITE], "note")


def _another_column(sites: Directory) -> None:
    site = sites[SITE]
    there = "more" in snapshots.describe_snapshot(site, "note").columns
    snapshots.alter_columns(
        site,
        "note",
        **{"drop" if there else "add": ["more"]},  # type: ignore[arg-type]
    )


def _other_rows(sites: Directory, condition: str | None) -> None:
    snapshots.alter_condition(sites[SITE], "note", where=condition)


def _switch(sites: Directory, to: str) -> None:
    if master_of(sites[SITE]) != to:
        groups.switch_master(sites[SITE], BOOKS, to=to)


def _other_propagation(sites: Directory, *, synchronous: bool) -> None:
    snapshots.alter_propagation(sites[SITE], BOOKS, synchronous=synchronous)


def _rectify(sites: Directory) -> None:
    snapshots.rectify(sites[SITE], BOOKS, allow_mass_delete=True)


def _purge(sites: Directory) -> None:
    now = timedelta(0)
    deferred.purge(sites[SITE], retention=now, fold_after=now)
    for name in MASTERS:
        masters.purge_snapshot_logs(sites[name])


def _column_for_all(sites: Directory) -> None:
    [[count]] = run(
        sites["a"],
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'public.note'::regclass",
    )
    ddl = f"ALTER TABLE note ADD COLUMN more_{count} int"
    groups.execute_ddl(sites["a"], GROUP, ddl)


def resume(sites: Directory) -> None:
    """Open the group to users, if it is closed."""
    with sites["a"].session() as connection:
        status = get(connection, "a", GROUP).status
    if status is not Status.NORMAL:
        groups.resume(sites["a"], GROUP)


def _suspend_and_resume(sites: Directory) -> None:
    groups.suspend(sites["a"], GROUP)
    groups.resume(sites["a"], GROUP)


def _drop_or_create(sites: Directory) -> None:
    try:
        _drop_note(sites)
    except UnknownSnapshot:
        create_note(sites)


#: By name: what it is, and whether it surely asks the master of the snapshots.
VERBS: Mapping[str, tuple[Verb, bool]] = {
    "push": (lambda sites: push_from(sites[SITE]), True),
    "push one by one": (lambda s: push_from(s[SITE], group_max_calls=0), True),
    "push of a": (lambda sites: push_from(sites["a"]), False),
    "push of b": (lambda sites: push_from(sites["b"]), False),
    "refresh": (_refresh, True),
    "refresh without push": (partial(_refresh, push=False), True),
    "complete refresh": (partial(_refresh, method="c"), True),
    "other columns": (_another_column, True),
    **{
        f"other rows {number}": (partial(_other_rows, condition=one), False)
        for number, one in enumerate(CONDITIONS)
    },
    "create": (create_note, False),
    "drop": (_drop_note, True),
    "drop or create": (_drop_or_create, True),
    "switch to a": (partial(_switch, to="a"), False),
    "switch to b": (partial(_switch, to="b"), False),
    "synchronous": (partial(_other_propagation, synchronous=True), True),
    "asynchronous": (partial(_other_propagation, synchronous=False), False),
    "rectify": (_rectify, True),
    "purge": (_purge, False),
    "column for all": (_column_for_all, False),
    "suspend and resume": (_suspend_and_resume, False),
}
