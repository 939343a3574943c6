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
from functools import partial

from psycopg import errors as pg
from sqlalchemy import (
    BigInteger,
    Connection,
    Delete,
    Select,
    Text,
    Update,
    UpdateBase,
    bindparam,
    exists,
    func,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from sites.errors import NoFreeValue
from sites.names import QualifiedName
from sites.sessions.exchange import Later
from sites.sessions.prepared import Prepared
from sites.tables.table import Unique
from sites.writing import write
from sites.writing.staged import Between, selected
from sites.writing.triggered import users_search_path
from snapshots.definitions.policy import Leaving
from snapshots.errors import CannotMerge
from snapshots.merging import detached, held_back, kept, obstacles, work
from snapshots.merging.counts import Free, Rows
from snapshots.merging.search import (
    Blocked,
    Missing,
    RowsSwallowed,
    Step,
    in_parts,
    reason,
)
from snapshots.merging.work import Work

#: Rounds of holding back; each but the last finds at least one row.
ROUNDS = 20

_SWALLOWED = "a trigger or policy at the site suppresses the row"


class _InTheWay(Exception):
    """Rows were found that cannot be written now."""

    def __init__(self, changes: Work, missing: Missing) -> None:
        self.changes = changes
        self.missing = missing

    def hold(self, connection: Connection) -> None:
        """Hold them back."""
        for why in set(self.missing.values()):
            numbers = [no for no, reason in self.missing.items() if reason == why]
            rows = selected(self.changes.table, {"no": tuple(numbers)})
            by = held_back.LOCKED if why is None else held_back.REFUSED
            work.hold(connection, self.changes, rows, by, why)


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
            asked, last = list[Blocked](), None
            for step in _steps(group, free):
                if step.changes is not last:
                    _announce(connection, step.changes)
                asked.append(step.ask(connection, step.rows))
                last = step.changes
            _check_references(connection)
            if any(blocked() for blocked in asked):
                return False
    except (DBAPIError, RowsSwallowed) as error:
        reason(error)
        return False
    return True


def _hold_back(connection: Connection, group: Sequence[Work]) -> Free:
    """Hold back what others forbid; return the rows that are free after that."""
    free = held_back.close(connection, group)
    if held_back.hold_unreferable(connection, group):
        return held_back.close(connection, group)
    return free


def _steps(group: Sequence[Work], free: Free) -> Iterator[Step]:
    """The statements that write the rows which are free."""
    for part in _apart(group):
        yield from _steps_of(part, free)


def _apart(group: Sequence[Work]) -> list[list[Work]]:
    """The parts of a group that no foreign keys join, each in the order of the group.

    One after the other, so that seldom another table has to be announced.
    """
    parts: list[set[QualifiedName]] = []
    for table in (changes.staged.table for changes in group):
        near = {table.qualified, *(key.parent for key in table.foreign_keys)}
        joined = [part for part in parts if part & near]
        parts = [part for part in parts if not part & near]
        parts.append(near.union(*joined))
    return [[w for w in group if w.staged.table.qualified in part] for part in parts]


def _steps_of(group: Sequence[Work], free: Free) -> Iterator[Step]:
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
            yield Step(changes, ("U", "D"), Rows.all_of(there), run)
    for changes in busy:
        every = Rows.all_of(free[changes.staged.table.qualified].values())
        if every.count > 1:
            for unique in changes.staged.breakable():
                run = partial(_park, changes, unique, every)
                yield Step(changes, ("I", "U", "D"), every, run)
    for kind, verb, works in (
        ("I", _insert, busy),
        ("U", _update, busy),
        ("D", _delete, list(reversed(busy))),
    ):
        for changes in works:
            rows = free[changes.staged.table.qualified].get(kind)
            if rows is not None:
                yield Step(changes, (kind,), rows, partial(verb, changes))


def _keep(busy: Sequence[Work], free: Free) -> Iterator[Step]:
    """First of all, while rows that leave have all their values."""
    for changes in busy:
        kinds = free[changes.staged.table.qualified]
        leaving = changes.member.snapshot.leaving
        if "D" in kinds and leaving == Leaving.KEEP:
            run = partial(_keep_leaving, changes)
            yield Step(changes, ("D",), kinds["D"], run)


def _keep_leaving(changes: Work, connection: Connection, rows: Rows) -> Blocked:
    kept.keep(changes, connection, rows)
    return list


def _detach(
    group: Sequence[Work], changes: Work, connection: Connection, rows: Rows
) -> Blocked:
    detached.detach(connection, group, changes, rows.free)
    return list


def _park(
    changes: Work, unique: Unique, every: Rows, connection: Connection, rows: Rows
) -> Blocked:
    """Park those of some rows whose value any row takes.

    A unique key that the site has added may have no value to park a row with: rows that
    collide are then held back, as if a user had the value.
    """
    some = rows.free
    with suppress(NoFreeValue):
        write.pass_on(connection, changes.staged, unique, every.free, givers=some)
    return list


def _insert(changes: Work, connection: Connection, rows: Rows) -> Blocked:
    """Insert rows; those whose key or value was there already are blocked."""
    asked = _hold(_inserting, changes, connection, rows)
    return lambda: list(asked.answer().scalars())


def _inserting(changes: Work) -> Select[*tuple[int]]:
    statement = write.insert(changes.staged, _FREE, "I", skip_existing=True)
    identity = [statement.table.c[n] for n in changes.staged.identity]
    done = statement.returning(*identity).cte("done")
    same = [
        key == done.c[name]
        for key, name in zip(changes.keys, changes.staged.identity, strict=True)
    ]
    return select(changes.table.c.no).where(
        selected(changes.table, _FREE),
        changes.table.c.kind == "I",
        ~exists().where(*same),
    )


def _update(changes: Work, connection: Connection, rows: Rows) -> Blocked:
    asked = _hold(_updating, changes, connection, rows)

    def blocked() -> list[int]:
        if asked.answer().rowcount != rows.count:
            raise RowsSwallowed(_SWALLOWED)
        return []

    return blocked


def _updating(changes: Work) -> Update:
    return write.update(changes.staged, _FREE)


def _delete(changes: Work, connection: Connection, rows: Rows) -> Blocked:
    """Delete rows, or check that they are gone: a cascade may have deleted them."""
    asked = _hold(_deleting, changes, connection, rows)

    def blocked() -> list[int]:
        if asked.answer().rowcount < rows.count:
            base = changes.staged.table.sql()
            left = exists().where(
                selected(changes.table, rows.free),
                changes.table.c.kind == "D",
                changes.staged.same_row(base),
            )
            if connection.scalar(select(left)):
                raise RowsSwallowed(_SWALLOWED)
        return []

    return blocked


def _deleting(changes: Work) -> Delete:
    return write.delete(changes.staged, _FREE, "D")


def _hold(
    build: Callable[[Work], UpdateBase | Select[*tuple[int]]],
    changes: Work,
    connection: Connection,
    rows: Rows,
) -> Later:
    """Have a statement about some rows executed with the next one."""
    prepared = changes.staged.keep(build, lambda: Prepared(build(changes)))
    first, last = rows.numbers.start, rows.numbers.stop - 1
    return prepared.hold(connection, its_first=first, its_last=last)


#: The rows that a statement is about, by numbers that it gets when it is run.
_FREE = {
    "held": False,
    "no": Between(
        bindparam("its_first", 0, BigInteger),
        bindparam("its_last", 0, BigInteger),
    ),
}


def _take(connection: Connection, step: Step) -> None:
    """Take one step, or find the rows that it cannot write now."""
    try:
        _announce(connection, step.changes)
        with connection.begin_nested():
            missing: Missing = dict.fromkeys(step.run(connection, step.rows))
    except (DBAPIError, RowsSwallowed) as error:
        reason(error)
        missing = in_parts(connection, step)
    if missing:
        raise _InTheWay(step.changes, missing)


def _announce(connection: Connection, changes: Work) -> None:
    """Tell our triggers which table is written: changes of others come by cascades."""
    _WRITING.hold(connection, its_table=str(changes.staged.table.oid))


_WRITING = Prepared(
    select(func.set_config("snaptide.writing", bindparam("its_table", "", Text), True))
)


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
