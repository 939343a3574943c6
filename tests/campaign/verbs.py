"""What may be interrupted: each verb, what it needs, and the points on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import deferred
import masters
import snapshots
from masters.errors import UnknownLens
from masters.log.catalog import find_log
from sites import Directory, Site, names
from snapshots.definitions import snapshot
from snaptide import migrate
from tests.linked_table import parked, run
from tests.stories import refresh


def _nothing(_: Directory) -> None:
    """Users write all the time: there is always something to push or refresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """Something to be interrupted, that can be asked for again until it is done."""

    run: Callable[[Directory], object]
    points: tuple[str, ...]
    prepare: Callable[[Directory], object] = _nothing
    #: which servers it has to do with
    servers: tuple[str, ...] = ("master", "site")
    #: whether it starts Spark
    spark: bool = False


def _push_group(sites: Directory) -> None:
    """Push so much together that it is compiled, and shipped by COPY."""
    some = (
        "INSERT INTO public.dispute SELECT max(id) + g, 'more' FROM public.dispute,"
        " generate_series(1, 10) g GROUP BY g"
    )
    for _ in range(3):
        run(sites["jfk"], some)
    deferred.push(sites["jfk"])


def _push_one_by_one(sites: Directory) -> None:
    deferred.push(sites["jfk"], group_max_calls=0)


def _refresh(sites: Directory) -> None:
    refresh(sites["jfk"], "books", allow_mass_delete=True)


def _has_snapshot(site: Site, name: str) -> bool:
    with site.session() as connection:
        return snapshot.find(connection, names.parse(name)) is not None


def _forget_copy(sites: Directory) -> None:
    if _has_snapshot(sites["jfk"], "copy"):
        # By force it would go although its master, killed, cannot be told.
        snapshots.drop(sites["jfk"], "copy")


def _create_copy(sites: Directory) -> None:
    if not _has_snapshot(sites["jfk"], "copy"):
        snapshots.create(
            sites["jfk"], "copy", master="hq", table="note", group="copies"
        )


def _load_copy(sites: Directory) -> None:
    _create_copy(sites)
    refresh(sites["jfk"], "copies")


def _have_copy(sites: Directory) -> None:
    _forget_copy(sites)
    _create_copy(sites)


def _have_loaded_copy(sites: Directory) -> None:
    _have_copy(sites)
    refresh(sites["jfk"], "copies")


def _alter_copy(sites: Directory) -> None:
    snapshots.alter_condition(sites["jfk"], "copy", where="words <> ''")
    refresh(sites["jfk"], "copies", allow_mass_delete=True)


def _alter_columns(sites: Directory) -> None:
    """Have a column go and come again, filled, wherever that was broken off before."""
    jfk = sites["jfk"]
    if "words" in snapshots.describe_snapshot(jfk, "copy").columns:
        snapshots.alter_columns(jfk, "copy", drop=["words"])
    snapshots.alter_columns(jfk, "copy", add=["words"])
    assert "words" in snapshots.describe_snapshot(jfk, "copy").columns
    refresh(jfk, "copies")


def _disputed(site: Site) -> set[str]:
    """The columns of a table of the master."""
    found = (
        "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped"
        " AND attrelid = 'public.dispute'::regclass"
    )
    return {name for (name,) in run(site, found)}


def _name_column(sites: Directory) -> None:
    """Have a column that can get another name."""
    if "more" not in _disputed(sites["hq"]):
        masters.execute_ddl(sites["hq"], "ALTER TABLE dispute ADD more text")
    refresh(sites["jfk"], "disputes")


def _change_for_site(sites: Directory) -> None:
    """Give it another name, which was that of another, and add one of a third."""
    columns = _disputed(sites["hq"])
    new, old = ("even", "odd") if "odd" in columns else ("odd", "even")
    again = "ALTER TABLE dispute DROP IF EXISTS most;"
    again += "ALTER TABLE dispute RENAME more TO most;"
    again += f"ALTER TABLE dispute DROP IF EXISTS {old}, ADD {new} int"
    if "more" in columns:
        masters.execute_ddl(sites["hq"], again)
    refresh(sites["jfk"], "disputes")


def _has_log(site: Site) -> bool:
    with site.session() as connection:
        return find_log(connection, names.parse("spare")) is not None


def _create_log(sites: Directory) -> None:
    if not _has_log(sites["hq"]):
        masters.create_snapshot_log(sites["hq"], "spare")


def _drop_log(sites: Directory) -> None:
    if _has_log(sites["hq"]):
        masters.drop_snapshot_log(sites["hq"], "spare")


def _map_shape(sites: Directory) -> None:
    """Have a lens go, unless it has gone before, and come again."""
    hq = sites["hq"]
    with suppress(UnknownLens):
        snapshots.drop_shape(hq, "spare", "words")
    snapshots.map_shape(
        hq, "spare", gone=["words"], sets={"loud": "words"}, backs={"words": "loud"}
    )


def _have_lens(sites: Directory) -> None:
    _create_log(sites)
    run(sites["hq"], "ALTER TABLE public.spare ADD IF NOT EXISTS loud text")
    _map_shape(sites)


def _leave_log_behind(sites: Directory) -> None:
    """Have rows in a log that every snapshot has seen."""
    _forget_copy(sites)
    run(sites["hq"], "UPDATE public.note SET words = words || '.'")
    refresh(sites["jfk"], "notes")
    # The position of a group counts from the next refresh on.
    refresh(sites["jfk"], "notes")


def _purge_logs(sites: Directory) -> None:
    masters.purge_snapshot_logs(sites["hq"])


def _purge_queue(sites: Directory) -> None:
    deferred.purge(
        sites["jfk"], retention=timedelta(0), fold_after=timedelta(seconds=2)
    )


def _park_one(sites: Directory) -> None:
    """Have a transaction parked that can be applied now."""
    hq, jfk = sites["hq"], sites["jfk"]
    deferred.push(jfk)
    refresh(jfk, "disputes")
    run(hq, "UPDATE public.dispute SET words = words || ' hq' WHERE id = 1")
    run(jfk, "UPDATE public.dispute SET words = words || ' jfk' WHERE id = 1")
    deferred.push(jfk)
    assert len(parked(hq)) == 1
    run(hq, "UPDATE public.dispute SET words = left(words, -3) WHERE id = 1")


def _retry(sites: Directory) -> None:
    deferred.retry_errors(sites["hq"])


def _upgrade(sites: Directory) -> None:
    migrate.upgrade(sites["fresh"])


VERBS: Mapping[str, Verb] = {
    "push": Verb(
        run=_push_group,
        points=(
            "push.before_cut_commit",
            "push.after_cut",
            "push.before_lay_commit",
            "push.after_plan",
            "transport.before_copy",
            "push.after_group_ship",
            "push.before_mark",
        ),
    ),
    "push one by one": Verb(
        run=_push_one_by_one,
        points=(
            "push.before_ship_commit",
            "push.after_ship",
            "push.before_apply",
            "push.after_settle",
            "write.after_park",
            "write.after_insert",
            "write.after_update",
            "push.after_apply",
            "push.before_commit",
            "push.after_commit",
        ),
    ),
    "refresh": Verb(
        run=_refresh,
        points=(
            "refresh.after_register",
            "refresh.after_window",
            "refresh.after_stage",
            "refresh.before_merge_commit",
            "refresh.after_merge",
            "refresh.after_sweep",
            "refresh.before_advance",
        ),
        spark=True,
    ),
    "load": Verb(
        prepare=_have_copy, run=_load_copy, points=("refresh.after_load",), spark=True
    ),
    "create": Verb(
        prepare=_forget_copy,
        run=_create_copy,
        points=(
            "snapshot_create.after_register",
            "snapshot_create.before_commit",
            "snapshot_create.after_commit",
        ),
    ),
    "alter": Verb(
        prepare=_have_loaded_copy,
        run=_alter_copy,
        points=("snapshot_alter.before_commit", "snapshot_alter.after_commit"),
        spark=True,
    ),
    "follow": Verb(
        prepare=_name_column,
        run=_change_for_site,
        points=("site_ddl.before_commit", "follow_ddl.between"),
        spark=True,
    ),
    "alter columns": Verb(
        prepare=_have_loaded_copy,
        run=_alter_columns,
        points=(
            "snapshot_alter.filling",
            "snapshot_alter.before_columns",
            "snapshot_alter.after_columns",
        ),
        spark=True,
    ),
    "drop": Verb(
        prepare=_have_copy,
        run=_forget_copy,
        points=(
            "snapshot_drop.before_unregister",
            "snapshot_drop.after_unregister",
            "snapshot_drop.before_commit",
            "snapshot_drop.after_commit",
        ),
    ),
    "create log": Verb(
        servers=("master",),
        prepare=_drop_log,
        run=_create_log,
        points=("log_create.before_commit", "log_create.after_commit"),
    ),
    "drop log": Verb(
        servers=("master",),
        prepare=_create_log,
        run=_drop_log,
        points=("log_drop.before_commit", "log_drop.after_commit"),
    ),
    "map shape": Verb(
        servers=("master",),
        prepare=_have_lens,
        run=_map_shape,
        points=("shape_drop.before_commit", "shape_map.before_commit"),
    ),
    "purge logs": Verb(
        servers=("master",),
        prepare=_leave_log_behind,
        run=_purge_logs,
        points=("log_purge.after_look", "log_purge.before_commit"),
    ),
    "purge queue": Verb(
        servers=("site",),
        run=_purge_queue,
        points=("queue_purge.after_fold", "queue_purge.before_commit"),
    ),
    "retry": Verb(
        servers=("master",),
        prepare=_park_one,
        run=_retry,
        points=("retry.before_commit",),
    ),
    "upgrade": Verb(
        servers=("site",),
        run=_upgrade,
        points=(
            "site_upgrade.before_revisions",
            "site_upgrade.after_revision",
            "site_upgrade.before_commit",
        ),
    ),
}
