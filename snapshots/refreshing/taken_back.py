"""Rows of a site to which the master does not grant their tables any more.

The contact that the master refuses has them leave, as the policy of each snapshot says.
What the master had answered until then is known from the notes of pushes alone. The
position stays, and the snapshot loaded: if the tables are granted again, the next
refresh compares all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from deferred.batches import marker
from deferred.options import RefreshOptions
from deferred.queues.queue import list_queues
from sites import retry
from sites.capture import position
from sites.errors import NotGranted, SnaptideError
from sites.names import QualifiedName, numbered
from sites.sessions import granted
from sites.sessions.site import Site
from sites.tables import ddl
from sites.tables.analyze import analyze
from sites.tables.table import describe
from sites.transfer.types import NativeType
from snapshots.definitions import rewrites, snapshot
from snapshots.definitions.refresh_notes import Steps
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences import taken_away
from snapshots.differences.moment import Moment
from snapshots.differences.window import COMPLETE, Member
from snapshots.merging import merge, settling, work
from snapshots.merging.work import Work
from snapshots.refreshing import commit, task
from snapshots.refreshing.task import Task
from snapshots.reports import SnapshotReport


def leave(
    connection: Connection,
    site: Site,
    group: str,
    options: RefreshOptions,
    refused: NotGranted,
) -> NotGranted:
    """Have rows leave that are granted no more, and return an error that says so.

    Commits at the site.

    Parameters:
        connection: holds the lock of the group's refreshes.
        refused: how the master refused the site.
    """
    plain = options.model_copy(update={"method": "?", "refresh_after_errors": True})
    try:
        its = task.read(connection, site, group, [group], plain, Steps())
        found = _loaded(its, _taken_back(its))
        said = _leave(its, found) if found else ""
    except (SnaptideError, SQLAlchemyError) as error:
        because = error.message if isinstance(error, SnaptideError) else "an error"
        said = f"The rows stay for now: {because}"
    return NotGranted(f"{refused.message} {said}".strip(), **refused.facts)


def _taken_back(its: Task) -> list[QualifiedName]:
    with its.master.session() as master:
        return granted.taken_back(master, its.site.name, its.tables())


def _loaded(its: Task, tables: Sequence[QualifiedName]) -> list[Snapshot]:
    """The snapshots of tables that have a moment and may have rows."""
    return [
        one
        for one in its.members
        if one.master in tables and one.loaded and its.group.shown_by(one)
    ]


def _leave(its: Task, found: Sequence[Snapshot]) -> str:
    """Have the rows of snapshots leave, if these are few or it is allowed."""
    few = int(its.options.mass_delete_share * merge.FEW_ROWS)
    asks_first = not its.options.allow_mass_delete and its.options.mass_delete_share < 1
    if asks_first and (many := _larger(its, found, few)):
        return (
            f"All rows of {', '.join(many)} would leave: if they are to, refresh with "
            "--allow-mass-delete (allow_mass_delete=True)."
        )
    write = partial(_commit, its, found)
    reports = retry.in_new_sessions(its.site.release, write)
    said = [f"{one.name}: {one.moves}." for one in reports if one.moves]
    return " ".join(said)


def _larger(its: Task, found: Sequence[Snapshot], few: int) -> list[str]:
    """The snapshots with more rows than are never a mass."""
    with its.site.transaction() as connection:
        larger = []
        for one in found:
            base = describe(connection, one.base).sql()
            some = select(base).limit(few + 1).subquery()
            if (connection.scalar(select(func.count()).select_from(some)) or 0) > few:
                larger.append(one.key)
    return larger


def _commit(its: Task, found: Sequence[Snapshot]) -> list[SnapshotReport]:
    options = its.options.model_copy(update={"allow_mass_delete": True})
    with its.site.transaction() as connection, commit.named():
        here = position.current(connection)
        merge.prepare(connection, its.group)
        queues = {one.snapshot: one for one in list_queues(connection)}
        answered = marker.answered(connection, its.group.master)
        group, moment = [], Moment(position=str(its.group.position), marker=answered)
        for number, one in enumerate(found):
            its_queue, member = queues.get(one.key), _member(connection, its, one)
            rows = work.create(
                connection, member, number, moment.position, queue=its_queue
            )
            _take_all(connection, rows)
            group.append(rows)
        gone = commit.withdraw(connection, group, moment, its)
        merged = merge.merge(connection, group, moment, options)
        settling.clear(connection, found, moment, here)
        for one in found:
            again = snapshot.change(one).values(rewrites.compared_once())
            connection.execute(again)
    reports = (merged[one.key].report for one in found)
    return [replace(one, withdrawn=gone.get(one.name, 0)) for one in reports]


def _member(connection: Connection, its: Task, one: Snapshot) -> Member:
    """The snapshot as its rows are written: the master's table is not to be seen."""
    base = describe(connection, one.base)
    return Member(
        snapshot=one,
        base=base,
        master=base,
        log_table=None,
        method=COMPLETE,
        since=its.group.shown_by(one),
        parents={},
        functions={},
        parts={},
    )


def _take_all(connection: Connection, changes: Work) -> None:
    """Fill a work table with all rows of the snapshot, which leave it."""
    base, columns = changes.staged.table.sql(), changes.member.carried
    marks = [sa.cast("D", NativeType('"char"')), sa.true(), sa.literal(taken_away.WHY)]
    rows = select(*marks, *(base.c[name] for name in columns))
    into = ["kind", "leaves", "cause", *numbered("n", columns)]
    connection.execute(sa.insert(changes.table).from_select(into, rows))
    ddl.index_temporary(connection, changes.table.name, "no")
    analyze(connection, changes.table, changes.looked_at)
