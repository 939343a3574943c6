"""Which columns of the destination's table a queue's calls were made for.

Calls name columns, and the destination can rename them: users of the site saw and
changed the columns that had these names at the last refresh. Their numbers identify
them, as long as the table is the same. The queue of a group's table stores no numbers:
its names are those of the group. So the tables that calls change are described here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.catalog import queue as queue_catalog
from deferred.errors import TargetColumnsMoved, ValueWouldChange
from deferred.queues import refresh_coverage
from deferred.queues.queue import Queue
from masters.errors import UnknownColumn
from sites import QualifiedName
from sites.tables import locks, lossy
from sites.tables.table import Table, describe
from sites.writing.staged import others


def note(connection: Connection, queue: Queue, target: Table) -> None:
    """Make the calls of an updatable snapshot apply to the current columns.

    Waiting calls were made for the columns of the last refresh: if others have their
    names by now, the site has to show those until no call waits and no session writes
    any.

    Parameters:
        queue: of the snapshot.
        target: the master table as seen by the refresh that runs in this transaction.

    Raises:
        TargetColumnsMoved: calls wait that were made for other columns.
    """
    moved = _moved(queue, target)
    if moved and _waits(connection, queue):
        raise _moved_of(queue, moved, target)
    settle(connection, queue, target)


def settle(connection: Connection, queue: Queue, target: Table) -> None:
    """Make the calls of a queue apply to the columns of a table as it is now."""
    numbers = numbers_of(queue.columns, target)
    if (queue.target_oid, queue.target_numbers) == (target.oid, tuple(numbers)):
        return
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == queue.id)
        .values(target_oid=target.oid, target_numbers=numbers)
    )


def numbers_of(columns: Sequence[str], target: Table) -> list[int]:
    """The numbers that columns have in a table."""
    return [target.column(name).number for name in columns]


def present(queue: Queue, target: Table) -> tuple[Queue, tuple[str, ...]]:
    """A queue with the names that its columns have in a table now.

    Returns:
        The queue, and those of its columns that the table has. A column that the table
        has no more keeps its name, or gets another if a column that is carried has it.

    Raises:
        TargetColumnsMoved: a column of the key is gone.
    """
    numbers = queue.target_numbers
    if numbers is None or queue.target_oid != target.oid:
        return queue, queue.columns
    called = {column.number: column.name for column in target.columns}
    there = tuple(called[number] for number in numbers if number in called)
    if there == queue.columns:
        return queue, queue.columns
    now = dict[str, str]()
    for name, number in zip(queue.columns, numbers, strict=True):
        if number not in called and name in queue.identity_columns:
            raise _moved_of(queue, {name: None}, target)
        now[name] = called.get(number) or unlike(name, [*there, *now.values()])
    return (
        replace(
            queue,
            columns=tuple(now.values()),
            identity_columns=tuple(now[name] for name in queue.identity_columns),
        ),
        there,
    )


def unlike(name: str, others: Collection[str]) -> str:
    """A name like this one that no other has."""
    while name in others:
        name += "_"
    return name


def refuse_moved(queue: Queue, target: Table) -> None:
    """Refuse to send a synchronous change to a column that took its name from another.

    Parameters:
        target: the destination's table as it is now.

    Raises:
        TargetColumnsMoved: the message gives the intended column's current name.
    """
    if moved := _moved(queue, target):
        raise _moved_of(queue, moved, target)


def refuse_others(numbers: Mapping[str, int], target: Table) -> None:
    """Refuse to write parked values to other columns than those they were made for.

    Parameters:
        numbers: of the columns in this table, when the values were parked.

    Raises:
        TargetColumnsMoved: as by `refuse_moved`.
    """
    if moved := others(numbers, target):
        raise _refusal(moved, str(target.qualified), target, "was meant")


def narrower(
    columns: Sequence[str], types: Sequence[str | None], target: Table
) -> dict[str, str]:
    """The columns whose values a table may round or cut, with the types they have.

    Parameters:
        types: of the columns where the values were made.
    """
    return {
        name: type_
        for name, type_ in zip(columns, types, strict=True)
        if type_ is not None
        and name in target.names
        and type_ != (there := target.column(name)).type
        and not lossy.holds(there.recorded, type_)
    }


def refuse_narrower(queue: Queue, target: Table) -> None:
    """Refuse changes of a table that may round or cut values.

    Raises:
        ValueWouldChange: the message names the column, and its types at both ends.
    """
    for name, type_ in narrower(queue.columns, queue.types, target).items():
        there = target.column(name).type
        raise ValueWouldChange(
            f"{queue.target}.{name} is {there} at {queue.destination}, but {type_} in "
            f"{queue.snapshot}: values may be rounded or cut.",
            table=str(queue.target),
            column=name,
        )


def _moved_of(
    queue: Queue, moved: Mapping[str, str | None], target: Table
) -> TargetColumnsMoved:
    where = f"{queue.target} at {queue.destination}"
    return _refusal(moved, where, target, f"{queue.snapshot} shows")


def _refusal(
    moved: Mapping[str, str | None], where: str, target: Table, whose: str
) -> TargetColumnsMoved:
    name, called = next(iter(moved.items()))
    now = "gone" if called is None else f"called {called}"
    return TargetColumnsMoved(
        f"Column {name} of {where} is not the column that {whose} under this name: "
        f"that one is {now}.",
        table=str(target.qualified),
        column=name,
        called=called,
    )


def _moved(queue: Queue, target: Table) -> dict[str, str | None]:
    if queue.target_numbers is None or queue.target_oid != target.oid:
        return {}
    numbers = zip(queue.columns, queue.target_numbers, strict=True)
    return others(dict(numbers), target)


def _waits(connection: Connection, queue: Queue) -> bool:
    """Whether a call is not covered yet, or a session may be writing one now."""
    waiting = sa.select(refresh_coverage.uncovered_keys(queue).subquery())
    base = describe(connection, queue.base)
    return bool(connection.scalar(sa.select(waiting.exists()))) or locks.others_write(
        connection, [base.oid]
    )


def described(
    connection: Connection, target: QualifiedName, columns: Sequence[str]
) -> Table:
    """Describe a base or master table, and check that it has the carried columns.

    Raises:
        UnknownTable, UnknownColumn: the table, or one of its columns, is gone.
    """
    table = describe(connection, target)
    refuse_unknown(table, columns)
    return table


def captured_columns(
    connection: Connection, queue: Queue
) -> tuple[Table, dict[str, str]]:
    """A table whose changes are queued, and the current name of each queued column.

    Raises:
        UnknownTable, UnknownColumn: the table, or one of its columns, is gone.
    """
    table = describe(connection, queue.base)
    return table, called_now(table, queue)


def called_now(table: Table, queue: Queue) -> dict[str, str]:
    """The current name of each column that is queued of a table.

    Raises:
        UnknownColumn: one of them is gone.
    """
    called = {column.number: column.name for column in table.columns}
    numbers = dict(zip(queue.columns, queue.column_numbers, strict=True))
    _refuse_gone(table, [name for name, n in numbers.items() if n not in called])
    return {name: called[number] for name, number in numbers.items()}


def refuse_unknown(table: Table, columns: Sequence[str]) -> None:
    """Refuse names of columns that a table has not.

    Raises:
        UnknownColumn.
    """
    _refuse_gone(table, [name for name in columns if name not in table.names])


def _refuse_gone(table: Table, gone: Sequence[str]) -> None:
    if gone:
        raise UnknownColumn(
            f"Table {table.qualified} no longer has the column {', '.join(gone)}.",
            table=str(table.qualified),
            columns=gone,
        )
