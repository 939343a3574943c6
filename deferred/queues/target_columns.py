"""Which columns of the destination's table a queue's calls were made for.

Calls name columns, and the destination can rename them: users of the site saw and
changed the columns that had these names at the last refresh. Their numbers identify
them, as long as the table is the same. The queue of a group's table stores no numbers:
its names are those of the group.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.catalog import queue as queue_catalog
from deferred.errors import TargetColumnsMoved
from deferred.queues import refresh_coverage
from deferred.queues.queue import Queue, find_queue
from sites import locks
from sites.table import Table, describe


def note(connection: Connection, snapshot: str, target: Table) -> None:
    """Make the calls of an updatable snapshot apply to the current columns.

    Waiting calls were made for the columns of the last refresh: if columns have
    exchanged names, all calls keep those until none waits and no session writes any.

    Parameters:
        target: the master table as seen by the refresh that runs in this transaction.
    """
    queue = find_queue(connection, snapshot)
    if queue is None:
        return
    if _moved(queue, target) and _waits(connection, queue):
        return
    settle(connection, queue, target)


def settle(connection: Connection, queue: Queue, target: Table) -> None:
    """Make the calls of a queue apply to the columns of a table as it is now."""
    numbers = [target.column(name).number for name in queue.columns]
    if (queue.target_oid, queue.target_numbers) == (target.oid, tuple(numbers)):
        return
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == queue.id)
        .values(target_oid=target.oid, target_numbers=numbers)
    )


def refuse_moved(queue: Queue, target: Table) -> None:
    """Refuse to send values to a column that took its name from the intended one.

    If the intended column is gone, the column that now has its name gets the values.

    Parameters:
        target: the destination's table as it is now.

    Raises:
        TargetColumnsMoved: the message gives the intended column's current name.
    """
    for name, called in _moved(queue, target).items():
        raise TargetColumnsMoved(
            f"Column {name} of {queue.target} at {queue.destination} is not the "
            f"column that {queue.snapshot} shows under this name: that one is called "
            f"{called}.",
            table=str(queue.target),
            column=name,
            called=called,
        )


def _moved(queue: Queue, target: Table) -> dict[str, str]:
    """The current names of columns whose former names other columns have taken."""
    if queue.target_numbers is None or queue.target_oid != target.oid:
        return {}
    called = {column.number: column.name for column in target.columns}
    return {
        name: called[number]
        for name, number in zip(queue.columns, queue.target_numbers, strict=True)
        if name in target.names and called.get(number, name) != name
    }


def _waits(connection: Connection, queue: Queue) -> bool:
    """Whether a call is not covered yet, or a session may be writing one now."""
    waiting = sa.select(refresh_coverage.uncovered_keys(queue).subquery())
    base = describe(connection, queue.base)
    return bool(connection.scalar(sa.select(waiting.exists()))) or locks.others_write(
        connection, [base.oid]
    )
