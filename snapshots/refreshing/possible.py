"""Refreshes what can be refreshed of a group, and leaves the rest of it behind.

If a failure belongs to one snapshot, the turn begins again without it, and without all
that must show the same moment: snapshots with a foreign key between them, or with a
condition that asks for the rows of the other. A parent that went on alone would lose
rows that a child refers to, and a child that went on alone could not refer to new ones.

A push that was refused for a table leaves its calls, and those after them, in queues of
the site. Their snapshots wait for the push; others are refreshed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection

from deferred.errors import TargetColumnsMoved, ValueWouldChange
from deferred.queues.queue import list_queues, undelivered_calls
from masters.errors import PartUnrecorded, UnknownColumn
from sites.errors import SnaptideError, StillNeeded, UnknownTable
from sites.names import QualifiedName
from sites.progress import Progress
from sites.tables.table import describe
from snapshots.creating import follow_ddl
from snapshots.creating.follow_ddl import DdlWaits
from snapshots.definitions.errors import (
    CallsUseColumn,
    SnapshotRefused,
    UndeliveredCalls,
)
from snapshots.definitions.snapshot import Behind, Snapshot
from snapshots.errors import (
    ColumnChanged,
    ColumnGone,
    ConditionBroken,
    KeyNotUnique,
    LensFails,
    MasterBehind,
    RowsHidden,
)
from snapshots.refreshing import refresh_once
from snapshots.refreshing.task import Task, explained
from snapshots.reports import SnapshotReport

#: Failures that belong to the snapshot or table that they name. Others are about the
#: call or both databases, or ask people first (`MassDelete`), and stop the whole group.
OF_ONE = (
    CallsUseColumn,
    ColumnChanged,
    ColumnGone,
    ConditionBroken,
    KeyNotUnique,
    LensFails,
    MasterBehind,
    PartUnrecorded,
    RowsHidden,
    SnapshotRefused,
    StillNeeded,
    TargetColumnsMoved,
    UnknownColumn,
    UndeliveredCalls,
    UnknownTable,
    ValueWouldChange,
)

#: Those of them that say that a column has gone or got another name.
_MOVED = (ColumnGone, TargetColumnsMoved, UnknownColumn)


def refresh_possible(
    read: Callable[[], Task],
    connection: Connection,
    progress: Progress | None,
    refused: SnaptideError | None = None,
) -> tuple[Task, str, tuple[SnapshotReport, ...]]:
    """Refresh a group once; commits at the site, then at the master.

    Parameters:
        read: reads the input. Each turn needs it anew, because the two databases may
            have met in the one before.
        connection: holds the lock of the group's refreshes.
        refused: why the push before stopped at a table. Snapshots whose changes wait
            stay behind.

    Returns:
        What was refreshed and left behind, the position that the group shows now, and
        a report on each snapshot that shows it.

    Raises:
        the error of a snapshot, if the refresh is strict or no other one can go on.
    """
    left: dict[str, Behind] = {}
    if refused is not None:
        task = read()
        left = _with_dependants(task, refused, _not_pushed(task, refused))
        if len(left) == len(task.members):
            raise refused
    while True:
        task = _without(read(), left)
        try:
            with explained(task.master, task.members, "refresh"):
                return task, *refresh_once.refresh_once(task, progress)
        except DdlWaits:
            error = _refusal(connection, task, None)
        except OF_ONE as found:
            error = _refusal(connection, task, found)
        if error is not None:
            first = [one.key for one in task.members if concerns(error, one)]
            strict = task.options.strict
            more = {} if strict else _with_dependants(task, error, first)
            # Nothing of the group, or nothing else.
            if len(more) in (0, len(task.members)):
                raise error
            left |= more


def _not_pushed(task: Task, refused: SnaptideError) -> list[str]:
    """The snapshots with changes that the master has not answered.

    Also the one that could not follow DDL before the push, if that is why.
    """
    with task.site.transaction() as connection:
        queues = {one.snapshot: one for one in list_queues(connection)}
        return [
            one.key
            for one in task.members
            if refused.facts.get("snapshot") == one.key
            or (one.key in queues and undelivered_calls(connection, queues[one.key]))
        ]


def _refusal(
    connection: Connection, task: Task, found: SnaptideError | None
) -> SnaptideError | None:
    """Why the refresh cannot go on; None if there was DDL that it follows now."""
    if found is not None and not isinstance(found, _MOVED):
        return found
    try:
        followed = follow_ddl.follow(connection, task.site, task.group, task.members)
        return None if followed else found
    except OF_ONE as error:
        return error


def _without(task: Task, left: Mapping[str, Behind]) -> Task:
    """The same refresh, which leaves these snapshots behind."""
    every = {one.key: one for one in task.members}
    return replace(
        task,
        members=tuple(one for one in task.members if one.key not in left),
        left=tuple((every[name], why) for name, why in left.items() if name in every),
    )


def _with_dependants(
    task: Task, error: SnaptideError, first: Iterable[str]
) -> dict[str, Behind]:
    """The snapshots that a failure concerns, and then those that depend on them."""
    why = Behind(code=error.code, why=error.message, hint=_hint(error))
    left = dict.fromkeys(first, why)
    links = _links(task) if left else set()
    waiting = [*left]
    for name in waiting:
        for other in sorted(two for one, two in links if one == name):
            if other not in left:
                root = left[name].depends_on or name
                left[other] = replace(left[name], depends_on=root)
                waiting.append(other)
    return left


def concerns(error: SnaptideError, one: Snapshot) -> bool:
    """Whether one of `OF_ONE` belongs to a snapshot."""
    tables = {str(one.master), str(one.base), *map(str, one.asked)}
    facts = error.facts
    return facts.get("snapshot") == one.key or facts.get("table") in tables


def _hint(error: SnaptideError) -> str:
    if isinstance(error, UnknownTable):
        return "Create the table again, or drop the snapshot that needs it."
    return ColumnGone.hint if isinstance(error, UnknownColumn) else error.hint


def _links(task: Task) -> set[tuple[str, str]]:
    """Pairs of snapshots that have to show the same moment, each in both directions."""
    found = set()
    with task.site.transaction() as site, task.master.transaction() as master:
        for one in task.members:
            here, there = _referred(site, one.base), _referred(master, one.master)
            there |= {*one.asked}
            for other in task.members:
                if other.base in here or other.master in there:
                    found |= {(one.key, other.key), (other.key, one.key)}
    return found


def _referred(connection: Connection, table: QualifiedName) -> set[QualifiedName]:
    """The tables that the foreign keys of a table refer to."""
    try:
        return {key.parent for key in describe(connection, table).foreign_keys}
    except UnknownTable:
        return set()
