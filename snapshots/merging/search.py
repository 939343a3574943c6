"""Finds the rows that a step of a merge cannot write now, by halving.

The other rows are written for the time being: what the caller does then is to hold
those back, and to write all again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from psycopg import errors as pg
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from sites.writing import misfits
from snapshots.errors import CannotMerge
from snapshots.merging.counts import Rows
from snapshots.merging.work import Work

#: Used while searching for locked rows: the merge has waited its full time already.
SHORT_TIMEOUT = "10ms"

#: If the site refuses this many rows of one statement, the refresh fails.
MOST_REFUSED = 1000

#: Errors that a user beside the merge can cause.
_GIVE_WAY = (
    pg.LockNotAvailable,
    pg.UniqueViolation,
    pg.ForeignKeyViolation,
    pg.RestrictViolation,
)


#: Waits for a statement, and returns the numbers of rows that another row blocks.
Blocked = Callable[[], list[int]]

#: Rows that cannot be written now, each with the reason if the site refuses it.
Missing = dict[int, str | None]


class RowsSwallowed(Exception):
    """A statement wrote fewer or more rows than there are, and raised no error."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of the write.

    `ask` has it executed for a range of row numbers, with the count of its rows; what
    it returns waits for that, and says which rows, by number, another row blocks.
    """

    changes: Work
    kinds: tuple[str, ...]
    rows: Rows
    ask: Callable[[Connection, Rows], Blocked]

    def run(self, connection: Connection, rows: Rows) -> list[int]:
        """Execute it, and return the numbers of rows that another row blocks."""
        return self.ask(connection, rows)()


def in_parts(connection: Connection, step: Step) -> Missing:
    """Find the rows by halving; the others are written for the time being.

    If none is found, the obstacle has gone meanwhile, and all rows are written.
    """
    patience = connection.scalar(select(func.current_setting("lock_timeout")))
    trial = connection.begin_nested()
    connection.execute(select(func.set_config("lock_timeout", SHORT_TIMEOUT, True)))
    found = _halve(connection, step, _numbers(connection, step))
    if found:
        trial.rollback()
    else:
        connection.execute(select(func.set_config("lock_timeout", patience, True)))
        trial.commit()
    return found


def _halve(connection: Connection, step: Step, numbers: list[int]) -> Missing:
    try:
        with connection.begin_nested():
            return dict.fromkeys(step.run(connection, Rows.numbered(numbers)))
    except (DBAPIError, RowsSwallowed) as error:
        why = reason(error)
    if len(numbers) == 1:
        if why and (misfit := _misfit(connection, step, numbers)):
            why = misfit
        return dict.fromkeys(numbers, why)
    middle = len(numbers) // 2
    found = _halve(connection, step, numbers[:middle])
    found |= _halve(connection, step, numbers[middle:])
    if sum(one is not None for one in found.values()) >= MOST_REFUSED:
        raise CannotMerge(f"The site refuses {MOST_REFUSED} rows or more: {why}")
    return found


def _misfit(connection: Connection, step: Step, numbers: list[int]) -> str | None:
    """Which column cannot hold its value, if that is why a row is refused."""
    rows = Rows.numbered(numbers).free
    found = misfits.first(connection, step.changes.staged, rows)
    return f"{found.name}: {found.message}" if found else None


def _numbers(connection: Connection, step: Step) -> list[int]:
    table = step.changes.table
    ours = (step.changes.free, table.c.kind.in_(step.kinds))
    return list(connection.scalars(select(table.c.no).where(*ours).order_by("no")))


def reason(error: DBAPIError | RowsSwallowed) -> str | None:
    """Why the site does not take rows; None if a user holds them for the moment.

    Raises:
        sqlalchemy.exc.DBAPIError: the reason has nothing to do with the rows.
    """
    if isinstance(error, RowsSwallowed):
        return str(error)
    if isinstance(error.orig, _GIVE_WAY):
        return None
    if not sqlstate.caused_by_data(error):
        raise error
    return sqlstate.message(error)
