"""One turn of a refresh: read both sides, compare, and merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace

from psycopg import errors as pg
from sqlalchemy import Connection

from deferred.batches import ledger, lost_rows
from deferred.queues import refresh_coverage
from deferred.queues.queue import list_queues
from masters.contracts import contract
from masters.log import registration, whole
from sites import faults, traces
from sites.progress import Progress
from snapshots.creating import answers, base_table
from snapshots.definitions.refresh_notes import MERGE, WINDOW
from snapshots.differences import (
    failing_lens,
    moved,
    stage,
    ways,
    window,
)
from snapshots.differences.comparison import Compared
from snapshots.differences.stage import Stage
from snapshots.differences.window import FAST, Window
from snapshots.errors import PositionMoved
from snapshots.keys import Side, Sides
from snapshots.merging.merge import Merged
from snapshots.refreshing import (
    begin,
    extra_keys,
    former,
    idle,
    past_refreshes,
)
from snapshots.refreshing.begin import Begun
from snapshots.refreshing.commit import commit
from snapshots.refreshing.moments import Contact, read_and_compare
from snapshots.refreshing.task import Task
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
    with ExitStack() as beside, task.site.session() as site:
        begun = begin.at_master(task, site, beside)
        master, facts = begun.connection, begun.facts
        nothing_since = idle.unchanged_position(
            master, site, task, begun.pair.master, begun.registered, begun.logs, facts
        )
        # Not rolled back: a rollback would make the server forget prepared plans.
        site.commit()
        if nothing_since is not None:
            return nothing_since, _unchanged(task)
        begin.start_spark(task, begun)
        contact = Contact.open(task, begun.pair, beside)
        task.steps.begin(WINDOW)
        seen = _window(site, task, begun)
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
        # As above: this moment was only read.
        site.commit()
    faults.point("refresh.after_stage")
    task.steps.begin(MERGE)
    merged = commit(task, seen, compared, here, loaded)
    traces.mark("arrive", brought, site=task.site.name, group=task.group.name)
    faults.point("refresh.after_merge")
    _finish(task, seen, compared)
    return seen.position, _reports(seen, compared, merged, loaded)


def _finish(task: Task, seen: Window, compared: Sequence[Compared]) -> None:
    """Do what remains when the site shows the moment."""
    _sweep(task, compared)
    faults.point("refresh.after_sweep")
    if any(member.master.foreign_keys for member in seen.members):
        base_table.link(task.site, seen.members)
    faults.point("refresh.before_advance")
    _tell_master(task, seen)
    if task.group.has_left:
        former.unregister_at_former(task.site)


@traces.span("window")
def _window(site: Connection, task: Task, begun: Begun) -> Window:
    group, known, facts = task.group, begun.registered, begun.facts
    return window.read(
        begun.connection,
        site,
        task.who,
        group,
        task.members,
        task.methods,
        known,
        facts,
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


def _tell_master(task: Task, seen: Window) -> None:
    """Tell the master what its logs and its notes for this site need not keep.

    Notes that it made after the moment that is shown stay in any case.
    """
    shown = seen.lost and not task.left and _shows_all_answers(task)
    keys = [m.key for m in task.members]
    if task.moments.shared and not (shown or task.group.has_promise):
        task.moments.tell(task.master, task.who.site_id, keys, seen.position)
        return
    with task.master.transaction() as connection:
        registration.advance(connection, task.who.site_id, keys, seen.position)
        if shown:
            lost_rows.forget(connection, task.who.site_id)
        if task.group.has_promise:
            _follow_promise(task, connection)


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
    loaded: Mapping[str, int],
) -> tuple[SnapshotReport, ...]:
    keys = {c.member.snapshot.key: c.window_keys for c in compared}
    return tuple(
        replace(merged[name].report, window_keys=keys[name])
        if (name := m.snapshot.key) in merged
        else SnapshotReport(name=name, method=m.method, inserted=loaded[name])
        for m in seen.members
    )
