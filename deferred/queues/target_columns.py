"""Which columns of the destination's table a queue's calls were made for.

Calls name columns, and names can be changed there: what users of the site saw and
changed are the columns that had these names at the last refresh. They are known by
their numbers, as long as the table is the same. A queue of a group's table has none:
its names are those of the group.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.catalog import queue as queue_catalog
from deferred.errors import TargetColumnsMoved
from deferred.queues import covered
from deferred.queues.queue import Queue, find_queue
from sites import locks
from sites.table import Table, describe


def note(connection: Connection, snapshot: str, target: Table) -> None:
    """Have the calls of a snapshot, if it is updatable, be for the columns of now.

    Those that wait were made for the columns of before: if names have changed hands,
    all calls stay for these until none waits and nobody is making any.

    Parameters:
        target: the master table as a refresh saw it, which is part of this transaction.
    """
    queue = find_queue(connection, snapshot)
    if queue is None:
        return
    if _moved(queue, target) and _waits(connection, queue):
        return
    settle(connection, queue, target)


def settle(connection: Connection, queue: Queue, target: Table) -> None:
    """Have the calls of a queue be for the columns of a table as it is now."""
    numbers = [target.column(name).number for name in queue.columns]
    if (queue.target_oid, queue.target_numbers) == (target.oid, tuple(numbers)):
        return
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == queue.id)
        .values(target_oid=target.oid, target_numbers=numbers)
    )


def refuse_moved(queue: Queue, target: Table) -> None:
    """Send nothing to columns that have taken the names of those that were meant.

    One that is gone gives its name to the next: nothing else could be meant.

    Parameters:
        target: the destination's table as it is now.

    Raises:
        TargetColumnsMoved: says what the column that was meant is called now.
    """
    for name, called in _moved(queue, target).items():
        raise TargetColumnsMoved(
            f"Column {name} of {queue.target} at {queue.destination} is not the one"
            f" that {queue.snapshot} shows by this name: that one is called {called}.",
            table=str(queue.target),
            column=name,
            called=called,
        )


def _moved(queue: Queue, target: Table) -> dict[str, str]:
    """By name, what columns are called now whose names others have taken."""
    if queue.target_numbers is None or queue.target_oid != target.oid:
        return {}
    called = {column.number: column.name for column in target.columns}
    return {
        name: called[number]
        for name, number in zip(queue.columns, queue.target_numbers, strict=True)
        if name in target.names and called.get(number, name) != name
    }


def _waits(connection: Connection, queue: Queue) -> bool:
    """Whether a call has no answer that a refresh shows, or may be about to be made."""
    waiting = sa.select(covered.uncovered_keys(queue).subquery())
    base = describe(connection, queue.base)
    return bool(connection.scalar(sa.select(waiting.exists()))) or locks.others_write(
        connection, [base.oid]
    )
