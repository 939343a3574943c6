"""Writes the rows that are not held back, in an order that constraints allow.

The order is that of `sites.writing.write`. Unlike an apply at a master, a merge has
users beside it. A row cannot be written if a user holds a lock, or has just taken its
key or value, or if a trigger or constraint of the users refuses it. The merge finds
such a row, holds it back, and writes all again without it and the rows that depend on
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from psycopg import errors as pg
from sqlalchemy import Connection, Text, bindparam, exists, func, select, text
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from sites.errors import NoFreeValue
from sites.sessions.prepared import Prepared
from sites.tables.table import Unique
from sites.writing import misfits, write
from sites.writing.staged import selected
from sites.writing.triggered import users_search_path
from snapshots.definitions.policy import Leaving
from snapshots.errors import CannotMerge
from snapshots.merging import detached, held_back, kept, obstacles, work
from snapshots.merging.counts import Free, Rows
from snapshots.merging.work import Work

#: Used while searching for locked rows: the merge has waited its full time already.
SHORT_TIMEOUT = "10ms"

#: Rounds of holding back; each but the last finds at least one row.
ROUNDS = 20

#: If the site refuses this many rows of one statement, the refresh fails.
MOST_REFUSED = 1000

#: Errors that a user beside the merge can cause.
_GIVE_WAY = (
    pg.LockNotAvailable,
    pg.UniqueViolation,
    pg.ForeignKeyViolation,
    pg.RestrictViolation,
)


_SWALLOWED = "a trigger or policy at the site suppresses the row"

#: Rows that cannot be written now, each with the reason if the site refuses it.
_Missing = dict[int, str | None]


class RowsSwallowed(Exception):
    """A statement wrote fewer or more rows than there are, and raised no error."""


class _InTheWay(Exception):
    """Rows were found that cannot be written now."""

    def __init__(self, changes: Work, missing: _Missing) -> None:
        self.changes = changes
        self.missing = missing

    def hold(self, connection: Connection) -> None:
        """Hold them back."""
        for why in set(self.missing.values()):
            numbers = [no for no, reason in self.missing.items() if reason == why]
            rows = selected(self.changes.table, {"no": tuple(numbers)})
            by = held_back.LOCKED if why is None else held_back.REFUSED
            work.hold(connection, self.changes, rows, by, why)


@dataclass(frozen=True, slots=True)
class _Step:
    """One statement of the write.

    `run` executes it for a range of row numbers, with the count of its rows, and
    returns the numbers of rows that another row blocks.
    """

    changes: Work
    kinds: tuple[str, ...]
    rows: Rows
    run: Callable[[Connection, Rows], list[int]]


def in_order(group: Sequence[Work]) -> list[Work]:
    """The work of a group, parents first."""
    order = write.parents_first([w.staged.table for w in group])
    return sorted(group, key=lambda w: order.index(w.staged.table.qualified))


def write_free(connection: Connection, group: Sequence[Work]) -> None:
    """Write all rows that are not held back; hold back those that cannot be written.

    Parameters:
        group: parents first.

    Raises:
        CannotMerge: the site refuses the rows, whatever is held back.
    """
    for _ in range(ROUNDS):
        free = _hold_back(connection, group)
        savepoint = connection.begin_nested()
        try:
            for step in _steps(group, free):
                _take(connection, step)
            _check_or_explain(connection, group)
        except _InTheWay as found:
            savepoint.rollback()
            found.hold(connection)
        else:
            savepoint.commit()
            return
    raise CannotMerge(
        "Rows at the site block the refresh, even after several attempts."
    )


def write_all(connection: Connection, group: Sequence[Work]) -> bool:
    """Write all rows that are not held back, unless anything is in the way of one.

    If it returns False, the caller rolls back to a savepoint.

    Parameters:
        group: parents first.
    """
    try:
        with users_search_path(connection):
            free = _hold_back(connection, group)
            for step in _steps(group, free):
                _announce(connection, step.changes)
                if step.run(connection, step.rows):
                    return False
            _check_references(connection)
    except (DBAPIError, RowsSwallowed) as error:
        _reason(error)
        return False
    return True


def _hold_back(connection: Connection, group: Sequence[Work]) -> Free:
    """Hold back what others forbid; return the rows that are free after that."""
    free = held_back.close(connection, group)
    if held_back.hold_unreferable(connection, group):
        return held_back.close(connection, group)
    return free


def _steps(group: Sequence[Work], free: Free) -> Iterator[_Step]:
    """The statements that write the rows which are free."""
    busy = [w for w in group if free[w.staged.table.qualified]]
    following = {
        link.child.staged.table.qualified
        for link in work.following(group)
        if free[link.parent.staged.table.qualified].keys() & {"U", "D"}
    }
    yield from _keep(busy, free)
    for changes in busy:
        kinds = free[changes.staged.table.qualified]
        there = [kinds[kind] for kind in ("U", "D") if kind in kinds]
        if there and changes.staged.table.qualified in following:
            run = partial(_detach, group, changes)
            yield _Step(changes, ("U", "D"), Rows.all_of(there), run)
    for changes in busy:
        every = Rows.all_of(free[changes.staged.table.qualified].values())
        if every.count > 1:
            for unique in changes.staged.breakable():
                run = partial(_park, changes, unique, every)
                yield _Step(changes, ("I", "U", "D"), every, run)
    for kind, verb, works in (
        ("I", _insert, busy),
        ("U", _update, busy),
        ("D", _delete, list(reversed(busy))),
    ):
        for changes in works:
            rows = free[changes.staged.table.qualified].get(kind)
            if rows is not None:
                yield _Step(changes, (kind,), rows, partial(verb, changes))


def _keep(busy: Sequence[Work], free: Free) -> Iterator[_Step]:
    """First of all, while rows that leave have all their values."""
    for changes in busy:
        kinds = free[changes.staged.table.qualified]
        leaving = changes.member.snapshot.leaving
        if "D" in kinds and leaving == Leaving.KEEP:
            yield _Step(changes, ("D",), kinds["D"], partial(kept.keep, changes))


def _detach(
    group: Sequence[Work], changes: Work, connection: Connection, rows: Rows
) -> list[int]:
    detached.detach(connection, group, changes, _free(rows))
    return []


def _park(
    changes: Work, unique: Unique, every: Rows, connection: Connection, rows: Rows
) -> list[int]:
    """Park those of some rows whose value any row takes.

    A unique key that the site has added may have no value to park a row with: rows that
    collide are then held back, as if a user had the value.
    """
    some = _free(rows)
    with suppress(NoFreeValue):
        write.pass_on(connection, changes.staged, unique, _free(every), givers=some)
    return []


def _insert(changes: Work, connection: Connection, rows: Rows) -> list[int]:
    """Insert rows, and return those whose key or value was there already."""
    statement = write.insert(changes.staged, _free(rows), "I", skip_existing=True)
    identity = [statement.table.c[n] for n in changes.staged.identity]
    done = statement.returning(*identity).cte("done")
    same = [
        key == done.c[name]
        for key, name in zip(changes.keys, changes.staged.identity, strict=True)
    ]
    missing = select(changes.table.c.no).where(
        selected(changes.table, _free(rows)),
        changes.table.c.kind == "I",
        ~exists().where(*same),
    )
    return list(connection.scalars(missing))


def _update(changes: Work, connection: Connection, rows: Rows) -> list[int]:
    statement = write.update(changes.staged, _free(rows))
    if connection.execute(statement).rowcount != rows.count:
        raise RowsSwallowed(_SWALLOWED)
    return []


def _delete(changes: Work, connection: Connection, rows: Rows) -> list[int]:
    """Delete rows, or check that they are gone: a cascade may have deleted them."""
    statement = write.delete(changes.staged, _free(rows), "D")
    if connection.execute(statement).rowcount < rows.count:
        base = changes.staged.table.sql()
        left = exists().where(
            selected(changes.table, _free(rows)),
            changes.table.c.kind == "D",
            changes.staged.same_row(base),
        )
        if connection.scalar(select(left)):
            raise RowsSwallowed(_SWALLOWED)
    return []


def _free(rows: Rows) -> dict[str, object]:
    return {"held": False, "no": rows.numbers}


def _take(connection: Connection, step: _Step) -> None:
    """Take one step, or find the rows that it cannot write now."""
    try:
        _announce(connection, step.changes)
        with connection.begin_nested():
            missing: _Missing = dict.fromkeys(step.run(connection, step.rows))
    except (DBAPIError, RowsSwallowed) as error:
        _reason(error)
        missing = _in_parts(connection, step, _numbers(connection, step))
    if missing:
        raise _InTheWay(step.changes, missing)


def _announce(connection: Connection, changes: Work) -> None:
    """Tell our triggers which table is written: changes of others come by cascades."""
    _WRITING.hold(connection, its_table=str(changes.staged.table.oid))


_WRITING = Prepared(
    select(func.set_config("snaptide.writing", bindparam("its_table", "", Text), True))
)


def _in_parts(connection: Connection, step: _Step, numbers: list[int]) -> _Missing:
    """Find the rows by halving; the others are written for the time being.

    If none is found, the obstacle has gone meanwhile, and all rows are written.
    """
    patience = connection.scalar(select(func.current_setting("lock_timeout")))
    trial = connection.begin_nested()
    connection.execute(select(func.set_config("lock_timeout", SHORT_TIMEOUT, True)))
    found = _halve(connection, step, numbers)
    if found:
        trial.rollback()
    else:
        connection.execute(select(func.set_config("lock_timeout", patience, True)))
        trial.commit()
    return found


def _halve(connection: Connection, step: _Step, numbers: list[int]) -> _Missing:
    try:
        with connection.begin_nested():
            return dict.fromkeys(step.run(connection, Rows.numbered(numbers)))
    except (DBAPIError, RowsSwallowed) as error:
        why = _reason(error)
    if len(numbers) == 1:
        if why and (misfit := _misfit(connection, step, numbers)):
            why = misfit
        return dict.fromkeys(numbers, why)
    middle = len(numbers) // 2
    found = _halve(connection, step, numbers[:middle])
    found |= _halve(connection, step, numbers[middle:])
    if sum(reason is not None for reason in found.values()) >= MOST_REFUSED:
        raise CannotMerge(f"The site refuses {MOST_REFUSED} rows or more: {why}")
    return found


def _misfit(connection: Connection, step: _Step, numbers: list[int]) -> str | None:
    """Which column cannot hold its value, if that is why a row is refused."""
    rows = _free(Rows.numbered(numbers))
    found = misfits.first(connection, step.changes.staged, rows)
    return f"{found.name}: {found.message}" if found else None


def _reason(error: DBAPIError | RowsSwallowed) -> str | None:
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


def _numbers(connection: Connection, step: _Step) -> list[int]:
    table = step.changes.table
    ours = (step.changes.free, table.c.kind.in_(step.kinds))
    return list(connection.scalars(select(table.c.no).where(*ours).order_by("no")))


def _check_references(connection: Connection) -> None:
    """Check the foreign keys that were deferred until all rows are written."""
    connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))


def _check_or_explain(connection: Connection, group: Sequence[Work]) -> None:
    """The same; if one refuses rows, find those."""
    try:
        with connection.begin_nested():
            _check_references(connection)
    except DBAPIError as error:
        if not isinstance(error.orig, pg.ForeignKeyViolation):
            raise
        _find_orphans(connection, group)
        raise CannotMerge(
            f"A foreign key refuses the refresh: {error.orig.diag.message_primary}."
        ) from None


def _find_orphans(connection: Connection, group: Sequence[Work]) -> None:
    by_table = {w.staged.table.qualified: w for w in group}
    for changes in group:
        for link in work.links_up(changes, by_table):
            for side, condition in obstacles.violations(link):
                rows = select(side.table.c.no).where(side.free, condition)
                numbers = list(connection.scalars(rows))
                if numbers:
                    raise _InTheWay(side, dict.fromkeys(numbers))
