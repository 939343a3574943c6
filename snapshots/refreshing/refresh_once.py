"""One turn of a refresh: read both sides, compare, and merge."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from typing import Any

from psycopg import errors as pg
from sqlalchemy import Connection, Row

from deferred.batches import ledger, lost_rows, reconcile
from deferred.queues import refresh_coverage
from deferred.queues.queue import list_queues
from masters.contracts import contract
from masters.log import catalog as log_catalog
from masters.log import log_function, registration, site_ddl, whole
from masters.log.catalog import find_log
from masters.numbers import contact as numbers
from sites import faults, traces
from sites.capture import position
from sites.progress import Progress
from sites.sessions.identity import Identity
from sites.sessions.peers import Pair
from snapshots.creating import answers, base_table, follow_ddl
from snapshots.creating.follow_ddl import DdlWaits
from snapshots.definitions import rewrites, snapshot
from snapshots.definitions.refresh_notes import MERGE, WINDOW
from snapshots.differences import failing_lens, moved, stage, ways, window
from snapshots.differences.comparison import Compared
from snapshots.differences.stage import Stage
from snapshots.differences.window import FAST, Window
from snapshots.errors import PositionMoved
from snapshots.keys import Side, Sides
from snapshots.merging.merge import Merged
from snapshots.refreshing import extra_keys, former, idle, past_refreshes
from snapshots.refreshing.commit import commit
from snapshots.refreshing.first_load import Loaded
from snapshots.refreshing.moments import Contact, read_and_compare
from snapshots.refreshing.task import Task, hold_master, kept, start_spark
from snapshots.reports import SnapshotReport

#: Batches that a traced refresh is linked to, at most.
LINKS = 32


def refresh_once(
    task: Task, progress: Progress | None
) -> tuple[str, tuple[SnapshotReport, ...]]:
    """Read, compare and merge once; commits at the site, then at the master.

    Returns:
        The position that the group shows now, and a report on each snapshot.
    """
    with (
        ExitStack() as beside,
        task.site.session() as site,
        task.master.session() as master,
    ):
        # Check that neither side was restored to before their last contact.
        name = task.group.master
        pair, row = reconcile.confirm_for_refresh(
            site, master, task.here, name, _AT_MASTER, **_asked(task)
        )
        if task.group.numbered:
            numbers.keep_supplied(site, master, pair)
        if row.site_ddl and follow_ddl.waiting(site_ddl.of(row.site_ddl), task.members):
            raise DdlWaits
        task, registered = _keep_logs(site, master, task, row, pair)
        faults.point("refresh.after_register")
        logs = log_catalog.names(row.logs)
        hold_master(master, task.members, "refresh", logs.values())
        nothing_since = idle.unchanged_position(
            master, site, task, pair.master, registered, logs
        )
        # Not rolled back: a rollback would make the server forget prepared plans.
        site.commit()
        if nothing_since is not None:
            master.commit()
            return nothing_since, _unchanged(task)
        start_spark(master, task)
        contact = Contact.open(task, pair, beside)
        task.steps.begin(WINDOW)
        seen = _window(master, site, task, registered)
        _make_logs_whole(task, seen)
        brought = _link_batches(task, seen, master)
        site.commit()
        if outgrown := [one for one in seen.members if one.has_outgrown_site]:
            extra_keys.make_room(task.site, outgrown)
        faults.point("refresh.after_window")
        sides = Sides(
            master=Side(site=task.master, at=master), site=Side(site=task.site, at=site)
        )
        seen = _completed(task, sides, seen)
        lensed = [member for member in seen.members if member.old]
        with failing_lens.named(task.master, lensed) if lensed else nullcontext():
            here, compared, loaded = read_and_compare(
                task, sides, contact, seen, progress
            )
        # As above: these moments were only read.
        site.commit()
        master.commit()
    faults.point("refresh.after_stage")
    task.steps.begin(MERGE)
    merged = commit(task, seen, compared, here, loaded)
    traces.mark("arrive", brought, site=task.site.name, group=task.group.name)
    faults.point("refresh.after_merge")
    _finish(task, seen, compared, registered)
    return seen.position, _reports(seen, compared, merged, loaded)


def _keep_logs(
    site: Connection, master: Connection, task: Task, row: Row[Any], pair: Pair
) -> tuple[Task, set[str]]:
    """Have the master keep its logs for all snapshots of a group.

    Parameters:
        row: what the master was asked.

    Returns:
        The task, with its snapshots as noted now; those for which it kept logs before.
    """
    known = registration.known(row.registered, task.from_images())
    registered = kept(known, task.members)
    registered |= _take_over(master, task, registered)
    registered |= _take_back(master, task, registered, pair.master)
    return _register_new(site, master, task, registered), registered


def _register_new(
    site: Connection, connection: Connection, task: Task, known: Collection[str]
) -> Task:
    """Register the snapshots for which the master does not keep its log yet; commits.

    These are about to be loaded; or the master forgot them, and they will be
    compared completely. If this turn does not come to that, the next one finds them
    registered: so the site notes it first. A turn that has read another note does not
    take this one away: its commit compares them.

    Parameters:
        site, connection: to the site and the master, outside a transaction.
        known: those that were registered a moment ago.
    """
    new = [m.key for m in task.members if not (m.loaded and m.key in known)]
    if not new:
        return task
    noted = rewrites.compared_once()
    compared = set[str]()
    # The site commits first.
    with connection.begin(), site.begin():
        log_function.keep(connection, task.tables())
        for member in task.members:
            if member.key in known or find_log(connection, member.master) is None:
                continue
            if member.loaded:
                site.execute(snapshot.change(member).values(noted))
                compared.add(member.key)
            registration.register(
                connection,
                site_id=task.who.site_id,
                site_name=task.site.name,
                snapshot=member.key,
                table=member.master,
                parents=[*member.asked],
                updatable=member.updatable,
            )
        here = position.current(connection)
        registration.advance(connection, task.who.site_id, new, here)
    now = [replace(m, **noted) if m.key in compared else m for m in task.members]
    return replace(task, members=tuple(now))


def _take_over(connection: Connection, task: Task, known: Collection[str]) -> set[str]:
    """Have the master keep its logs for snapshots since the image that filled them.

    They were loaded while the master was away, and it has kept its logs for the image.
    Commits.

    Parameters:
        connection: to the master, outside a transaction.
        known: the snapshots for which it keeps them already.

    Returns:
        Those for which it does now.
    """
    found: set[str] = set()
    shown = task.from_images()
    for member in task.members:
        if member.key in known or member.key not in shown or member.asked:
            continue
        assert member.image is not None
        with connection.begin():
            found |= registration.take_over(
                connection,
                task.who.site_id,
                {member.key: member.master},
                member.image,
                shown[member.key],
            )
    return found


def _take_back(
    connection: Connection, task: Task, known: Collection[str], master: Identity
) -> set[str]:
    """Have the master keep its logs again for snapshots that it has released; commits.

    They are kept from the moment on that the site shows. If the logs still reach back
    to it, the refresh is fast.

    Parameters:
        connection: to the master, outside a transaction.
        known: the snapshots for which it keeps them already.
        master: who it is now: a position of another incarnation means nothing.

    Returns:
        Those for which it does now.
    """
    shown = {
        member.key: seen
        for member in task.members
        if member.key not in known
        and member.loaded
        and (seen := task.group.shown_by(member))
    }
    if not shown or task.group.incarnation != master.incarnation:
        return set()
    with connection.begin():
        found = registration.take_back(connection, task.who.site_id, shown)
    return kept(found, task.members)


def _finish(
    task: Task, seen: Window, compared: Sequence[Compared], registered: set[str]
) -> None:
    """Do what remains when the site shows the moment.

    Raises:
        PositionMoved: the master knows snapshots no more that were registered.
    """
    _sweep(task, compared)
    faults.point("refresh.after_sweep")
    if any(member.master.foreign_keys for member in seen.members):
        base_table.link(task.site, seen.members)
    faults.point("refresh.before_advance")
    told = _tell_master(task, seen)
    if task.group.has_left:
        former.unregister_at_former(task.site)
    if forgotten := sorted(registered - told):
        # The site may have been granted other rows before the moment that was read.
        raise PositionMoved(f"The master has forgotten {', '.join(forgotten)}.")


@traces.span("window")
def _window(
    master: Connection, site: Connection, task: Task, registered: Collection[str]
) -> Window:
    group = task.group
    return window.read(
        master, site, task.who, group, task.members, task.methods, registered
    )


def _completed(task: Task, sides: Sides, seen: Window) -> Window:
    """Find what conditions look for, if there are any; choose each snapshot's way.

    If the group's contract asks for it, that is the way that costs least.
    """
    if any(member.parents for member in seen.members):
        seen = moved.find(sides, seen)
    if not task.group.repairs:
        return seen
    past = past_refreshes.costs(sides.site.at, task.group.name)
    return ways.choose(sides, seen, task.methods, past)


def _make_logs_whole(task: Task, seen: Window) -> None:
    """Give parts of the master's tables the triggers of their logs that they lack.

    If users write to a part just now, this refresh compares all rows instead.

    Raises:
        PositionMoved: they have them now; the refresh begins again.
        PartUnrecorded: our user may not do that.
    """
    if not seen.unrecorded:
        return
    # On a foreign table there can be none.
    with suppress(pg.LockNotAvailable, pg.WrongObjectType):
        for table in seen.unrecorded:
            joined = [m.joined for m in seen.members if m.snapshot.master == table]
            whole.make(task.master, table, joined)
        raise PositionMoved("A snapshot log lacked triggers, which it has now.")


def _link_batches(task: Task, seen: Window, master: Connection) -> Sequence[str]:
    """Link the refresh, if it is traced, to the batches that its window covers.

    Returns:
        What these batches carry.
    """
    same = task.group.incarnation == seen.master.incarnation
    if not traces.is_recording() or seen.since is None or not same:
        return ()
    brought = ledger.traceparents(master, seen.since, LINKS)
    traces.link(brought)
    return brought


#: What the master is asked, besides who it is.
_AT_MASTER = (registration.REGISTERED, log_catalog.NAMES, site_ddl.FOR_SITE)


def _asked(task: Task) -> dict[str, Any]:
    """The parameters of these."""
    asked: dict[str, Any] = {
        "its_snapshots": [member.key for member in task.members],
        **log_catalog.asked(task.tables()),
    }
    if any(member.ddl_followed for member in task.members):
        asked |= site_ddl.asked(follow_ddl.followed(task.members))
    return asked


def _tell_master(task: Task, seen: Window) -> set[str]:
    """Tell the master what it need not keep for this site; the snapshots it knows.

    Notes that it made after the moment that is shown stay in any case. If it crashes
    before this is on its disk, it keeps more than it need, until the next refresh.
    """
    shown = seen.lost and not task.left and _shows_all_answers(task)
    with task.master.transaction() as connection:
        keys = [m.key for m in task.members]
        told = registration.advance(
            connection, task.who.site_id, keys, seen.position, flushed=False
        )
        if shown:
            lost_rows.forget(connection, task.who.site_id)
        if task.group.has_promise:
            _follow_promise(task, connection)
    return told


def _follow_promise(task: Task, master: Connection) -> None:
    """Keep at the site what the contract promises now."""
    if contract.promises_can_be_read(master):
        name = task.group.name
        promised = contract.promised(master, task.who.site_id, name)
        with task.site.transaction() as connection:
            answers.keep(connection, name, promised)


def _shows_all_answers(task: Task) -> bool:
    """Whether users of the site see the outcome of all changes sent to the master."""
    with task.site.transaction() as connection:
        to = task.group.master
        queues = [one for one in list_queues(connection) if one.destination == to]
        return refresh_coverage.nothing_waits(connection, queues)


def _sweep(task: Task, compared: Sequence[Compared]) -> None:
    """Drop the stages; the next large refresh drops those that a crash has left."""
    staged = [c for c in compared if isinstance(c.difference, Stage)]
    if not staged:
        return
    with task.site.transaction() as connection:
        for found in staged:
            stage.drop(connection, found.member.snapshot)


def _unchanged(task: Task) -> tuple[SnapshotReport, ...]:
    return tuple(
        SnapshotReport(name=m.key, method=FAST, window_keys=0) for m in task.members
    )


def _reports(
    seen: Window,
    compared: Sequence[Compared],
    merged: Mapping[str, Merged],
    loaded: Mapping[str, Loaded],
) -> tuple[SnapshotReport, ...]:
    keys = {c.member.snapshot.key: c.window_keys for c in compared}
    return tuple(
        replace(merged[name].report, window_keys=keys[name])
        if (name := m.snapshot.key) in merged
        else SnapshotReport(name=name, method=m.method, inserted=loaded[name].rows)
        for m in seen.members
    )
