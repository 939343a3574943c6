"""Refresh: bring a group of snapshots to one present moment of its master."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from psycopg.errors import LockNotAvailable, UndefinedTable
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

import deferred
from deferred import PushReport, agreement, error_queue, queue
from masters import registration
from masters.snapshot_log import find_log
from sites import faults, identity, names, peers, position, ring
from sites.activity import Progress
from sites.errors import SnaptideError
from sites.identity import Identity
from sites.site import Site
from snapshots import (
    base_table,
    comparison,
    first_load,
    images,
    large,
    merge,
    refresh_group,
    snapshot,
    stage,
    window,
    work,
)
from snapshots.comparison import Compared
from snapshots.definition import Definition, define
from snapshots.errors import (
    CannotMerge,
    DifferentGroups,
    ErrorsAtMaster,
    PositionMoved,
    StageLost,
    UnknownSnapshot,
    WrongMethod,
)
from snapshots.large import Sides
from snapshots.merge import Merged, Rules
from snapshots.refresh_group import RefreshGroup
from snapshots.reports import RefreshReport, SnapshotReport
from snapshots.snapshot import Snapshot
from snapshots.stage import Stage
from snapshots.window import LOAD, Member, Window

ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One refresh of one group."""

    site: Site
    master: Site
    who: Identity
    group: RefreshGroup
    members: tuple[Snapshot, ...]
    methods: Mapping[str, str]
    rules: Rules


def refresh(
    site: Site,
    what: str | Sequence[str],
    *,
    method: str = "?",
    push_deferred_rpc: bool = True,
    refresh_after_errors: bool = True,
    keep_pending: bool = True,
    allow_mass_delete: bool = False,
    mass_delete_share: float = 0.3,
    progress: Progress | None = None,
) -> RefreshReport:
    """Refresh a group of snapshots (Oracle: DBMS_SNAPSHOT.REFRESH, DBMS_REFRESH).

    All snapshots of the group come to one moment of the master; if anything
    fails, none is changed.

    Parameters:
        what: a refresh group, or snapshots of one group, as a list or separated
            by commas. The others of the group come along: a group has one moment.
        method: one character for each snapshot named, `f` fast, `c` complete,
            `?` fast if possible; the last ones may be left out. A snapshot that
            was never loaded is, whatever is asked for.
        push_deferred_rpc: push the site's own changes first.
        refresh_after_errors: refresh although transactions of this site that
            touch the group stand in the master's error queue.
        keep_pending: leave rows alone that the site changed and the master has
            not answered. False shows the master's values meanwhile, as Oracle did.
        allow_mass_delete: also if more than `mass_delete_share` of a snapshot goes.
        progress: is told how far it is.

    Raises:
        UnknownSnapshot, DifferentGroups, WrongMethod: that cannot be refreshed so.
        RefreshRunning, ErrorsAtMaster, MassDelete: not now, or not without asking.
        NoSnapshotLog, SnapshotLogTooYoung: `f` cannot be done.
        SiteUnreachable, SiteChanged, SiteRestored, SiteReplaced, MasterChanged: one
            of the two sides.
        PastRetention, CannotTell, PushRunning: they do not agree on what was pushed.
    """
    started = time.monotonic()
    named = _split(what)
    group = _group_of(site, named)
    pushed = _push(site, group.master) if push_deferred_rpc else None
    rules = Rules(
        keep_pending=keep_pending,
        allow_mass_delete=allow_mass_delete,
        mass_delete_share=mass_delete_share,
    )
    with refresh_group.exclusively(site, group.name), _noted(site, group.name):
        for attempt in _again():
            with attempt:
                task = _task(site, group.name, named, method, rules)
                if not refresh_after_errors:
                    _refuse_errors(task)
                seen, reports = _once(task, progress)
    return RefreshReport(
        site=site.name,
        group=group.name,
        snapshots=reports,
        position=seen.position,
        seconds=time.monotonic() - started,
        pushed=pushed,
    )


@contextmanager
def _noted(site: Site, group: str) -> Iterator[None]:
    """Leave the reason of a failure where status finds it."""
    try:
        yield
    except SnaptideError as error:
        with suppress(SnaptideError, SQLAlchemyError), site.begin() as connection:
            refresh_group.note_error(connection, group, f"{error.code} {error.message}")
        raise


def _split(what: str | Sequence[str]) -> list[str]:
    parts = what.split(",") if isinstance(what, str) else list(what)
    return [part.strip() for part in parts if part.strip()]


def _group_of(site: Site, named: list[str]) -> RefreshGroup:
    with site.connect() as connection:
        identity.confirm(connection, site.name)
        if len(named) == 1 and (found := refresh_group.find(connection, named[0])):
            return found
        if not named:
            raise UnknownSnapshot("There is nothing to refresh.")
        groups = {snapshot.read(connection, n).refresh_group for n in named}
        if len(groups) > 1:
            raise DifferentGroups(
                f"{', '.join(named)} belong to the groups {', '.join(sorted(groups))}.",
                groups=sorted(groups),
            )
        group = refresh_group.find(connection, groups.pop())
    assert group is not None
    return group


def _push(site: Site, master: str) -> PushReport | None:
    with site.connect() as connection:
        has_queues = bool(queue.list_queues(connection, master))
    return deferred.push(site, master) if has_queues else None


def _again() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type((PositionMoved, StageLost)),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )


def _task(
    site: Site, group_name: str, named: list[str], method: str, rules: Rules
) -> _Task:
    with site.connect() as connection:
        who = identity.confirm(connection, site.name)
        group = refresh_group.find(connection, group_name)
        members = snapshot.members(connection, group_name)
    if group is None or not members:
        raise UnknownSnapshot(f"Refresh group {group_name} has no snapshots.")
    keys = [m.key for m in members]
    if named != [group_name]:
        keys = [str(names.parse(name)) for name in named]
    return _Task(
        site=site,
        master=site.peer(group.master),
        who=who,
        group=group,
        members=tuple(members),
        methods=_methods(keys, method),
        rules=rules,
    )


def _methods(keys: list[str], method: str) -> dict[str, str]:
    if set(method.lower()) - set("fc?") or len(method) > len(keys):
        raise WrongMethod(f"{method!r} is not a method for {len(keys)} snapshots.")
    return dict(zip(keys, method.lower(), strict=False))


def _refuse_errors(task: _Task) -> None:
    tables = [m.master for m in task.members]
    with task.master.connect() as connection:
        parked = error_queue.parked(connection, task.who.site_id, tables)
    if parked:
        raise ErrorsAtMaster(
            f"{parked} transactions of {task.site.name} stand in the error queue of "
            f"{task.master.name}.",
            transactions=parked,
        )


def _once(
    task: _Task, told: Progress | None
) -> tuple[Window, tuple[SnapshotReport, ...]]:
    """Read, compare and merge once; commits at the site, then at the master."""
    _confirm_master(task)
    registered = _register_new(task)
    faults.point("refresh.after_register")
    with _masters_moment(task) as master, _moment(task.site) as site:
        with task.site.connect() as plain:
            seen = window.read(
                master,
                plain,
                task.who,
                task.group,
                task.members,
                task.methods,
                registered,
            )
        _meet(task, seen)
        faults.point("refresh.after_window")
        known = [m for m in seen.members if m.method != LOAD]
        ready = [_ready(task, master, seen, member) for member in known]
        # Only now does the site's own moment begin.
        here = position.current(site)
        loaded = _load(task, master, seen, told)
        faults.point("refresh.after_load")
        sides = Sides(
            master=task.master, site=task.site, at_master=master, at_site=site
        )
        compared = [
            _compare(sides, seen, member, one)
            for member, one in zip(known, ready, strict=True)
        ]
    faults.point("refresh.after_stage")
    merged = _merge(task, seen, compared, here)
    faults.point("refresh.after_merge")
    _sweep(task, compared)
    faults.point("refresh.after_sweep")
    _link(task, seen)
    faults.point("refresh.before_advance")
    with task.master.begin() as connection:
        keys = [m.key for m in task.members]
        registration.advance(connection, task.who.site_id, keys, seen.position)
    return seen, _reports(seen, compared, merged, loaded)


def _confirm_master(task: _Task) -> None:
    """Make sure that neither side was restored to before their last contact."""
    with task.site.connect() as site, task.master.connect() as master:
        agreement.confirm_for_refresh(site, master, task.who, task.group.master)


def _meet(task: _Task, seen: Window) -> None:
    """Have both sides remember the window: a master that loses it will be known."""
    with task.site.connect() as site, task.master.connect() as master:
        peers.meet(site, master, task.who, seen.master)


def _ready(
    task: _Task, master: Connection, seen: Window, member: Member
) -> images.Keys | large.Prepared:
    """What has to be known of the window before the site's own moment begins."""
    keys = comparison.small_window(master, seen, member)
    if keys is None:
        return large.prepare(task.site, master, seen, member)
    return keys


def _compare(
    sides: Sides, seen: Window, member: Member, ready: images.Keys | large.Prepared
) -> Compared:
    if isinstance(ready, large.Prepared):
        return large.compare(sides, seen, member, ready)
    return comparison.compare(sides.at_master, sides.at_site, member, ready)


def _sweep(task: _Task, compared: Sequence[Compared]) -> None:
    """Drop the stages; what a crash leaves goes with the next large refresh."""
    staged = [c for c in compared if isinstance(c.difference, Stage)]
    if not staged:
        return
    with task.site.begin() as connection:
        for found in staged:
            assert isinstance(found.difference, Stage)
            stage.forget(connection, found.difference)
            stage.drop(connection, found.member.snapshot)


def _link(task: _Task, seen: Window) -> None:
    """Add the foreign keys whose snapshots are both there now.

    Each in a transaction of its own: users write to the tables, and who cannot
    be locked for a moment gets his key with a later refresh. Rows are checked in
    another one, in which users go on writing.
    """
    for reference in base_table.missing_references(seen.members):
        with suppress(LockNotAvailable):
            for step in (base_table.add_reference, base_table.check_reference):
                with task.site.begin() as connection:
                    brief = func.set_config("lock_timeout", "500ms", True)
                    connection.execute(select(brief))
                    step(connection, reference)


def _register_new(task: _Task) -> set[str]:
    """Have the master keep its log for snapshots that it keeps nothing for yet.

    These are about to be loaded; or the master forgot them, and they will be
    compared completely.

    Returns:
        Those that it kept its log for already.
    """
    keys = [m.key for m in task.members]
    with task.master.begin() as connection:
        known = registration.registered(connection, task.who.site_id, keys)
        for member in task.members:
            if member.key not in known:
                _register(connection, task, member)
        new = [m.key for m in task.members if not (m.loaded and m.key in known)]
        if new:
            here = position.current(connection)
            registration.advance(connection, task.who.site_id, new, here)
    return known


def _register(connection: Connection, task: _Task, member: Snapshot) -> None:
    log = find_log(connection, member.master)
    if log is None:
        return
    registration.register(
        connection,
        site_id=task.who.site_id,
        site_name=task.site.name,
        snapshot=member.key,
        refresh_group=task.group.name,
        log_id=log.id,
        table=member.master,
        condition=member.condition,
        updatable=member.updatable,
    )


@contextmanager
def _moment(site: Site) -> Iterator[Connection]:
    """A connection that sees one moment, from its first statement on."""
    with site.connect() as plain:
        yield plain.execution_options(isolation_level="REPEATABLE READ")


@contextmanager
def _masters_moment(task: _Task) -> Iterator[Connection]:
    """The same at the master, with its logs held from before that moment on.

    A purge that empties a partition takes its rows away from older moments too:
    what was looked up as being there would be read as empty.
    """
    with task.master.connect() as plain:
        logs = [find_log(plain, member.master) for member in task.members]
        plain.rollback()
        connection = plain.execution_options(isolation_level="REPEATABLE READ")
        try:
            ring.hold(connection, [log.log_table for log in logs if log is not None])
        except UndefinedTable as error:
            raise PositionMoved(
                "A snapshot log of the group went meanwhile."
            ) from error
        yield connection


def _load(
    task: _Task, master: Connection, seen: Window, told: Progress | None
) -> dict[str, int]:
    new = [m for m in seen.members if m.method == LOAD]
    if not new:
        return {}
    moment = str(master.scalar(select(func.pg_export_snapshot())))
    return {
        m.snapshot.key: first_load.copy(task.site, task.master, master, moment, m, told)
        for m in new
    }


def _merge(
    task: _Task, seen: Window, compared: Sequence[Compared], here: str
) -> dict[str, Merged]:
    definitions = _definitions(task, seen)
    methods = {m.snapshot.key: m.method for m in seen.members}
    with task.site.begin() as connection:
        merge.prepare(connection, task.group)
        merged = _write(connection, task, seen, compared)
        for found in compared:
            merge.clear(connection, found.member, seen, here)
        for member in seen.members:
            if member.method == LOAD:
                definition = definitions[member.snapshot.key]
                first_load.finish(connection, member, definition, task.master.name)
        merge.settle(connection, task.group, seen, methods, merged)
        faults.point("refresh.before_merge_commit")
    return merged


def _write(
    connection: Connection, task: _Task, seen: Window, compared: Sequence[Compared]
) -> dict[str, Merged]:
    """Write what differs, if anything does."""
    if not any(found.differs for found in compared):
        return {found.member.snapshot.key: Merged() for found in compared}
    group = []
    with _refused_by_the_site():
        for number, found in enumerate(compared):
            changes = work.create(connection, found.member, number)
            work.take(connection, changes, found.difference)
            group.append(changes)
        return merge.merge(connection, group, seen, task.rules)


@contextmanager
def _refused_by_the_site() -> Iterator[None]:
    """Name the type, trigger or constraint that refuses the master's rows."""
    try:
        yield
    except DBAPIError as error:
        raise CannotMerge(f"The site refuses the rows: {error.orig}") from error


def _definitions(task: _Task, seen: Window) -> dict[str, Definition]:
    """What the master tables look like, when a new snapshot needs to know."""
    if all(m.method != LOAD for m in seen.members):
        return {}
    return {
        m.key: define(
            task.master,
            m.master,
            columns=m.columns,
            condition=None,
            updatable=m.updatable,
        )
        for m in task.members
    }


def _reports(
    seen: Window,
    compared: Sequence[Compared],
    merged: Mapping[str, Merged],
    loaded: Mapping[str, int],
) -> tuple[SnapshotReport, ...]:
    keys = {c.member.snapshot.key: c.window_keys for c in compared}
    return tuple(
        _report(m.snapshot.key, m.method, merged, loaded, keys) for m in seen.members
    )


def _report(
    name: str,
    method: str,
    merged: Mapping[str, Merged],
    loaded: Mapping[str, int],
    keys: Mapping[str, int | None],
) -> SnapshotReport:
    if name not in merged:
        return SnapshotReport(name=name, method=method, inserted=loaded[name])
    done = merged[name]
    return SnapshotReport(
        name=name,
        method=method,
        inserted=done.inserted,
        updated=done.updated,
        deleted=done.deleted,
        held_back=done.held_back,
        refused=done.refused,
        window_keys=keys[name],
    )
