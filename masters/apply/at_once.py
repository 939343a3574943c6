"""Comparing and writing rows by one statement: one row, or many.

Locking a row writes its page and the log once more than the write itself, and comparing
rows beforehand looks up each of them twice. A unit that changes rows of one table, all
by the same kind of change, needs neither as long as they agree: one statement writes
the rows that are as its changes expect, and returns how many those were. If there are
fewer rows than changes, or anything fails, the statement is rolled back and the unit is
applied the usual way: its rows are locked in the order of their keys, compared and
settled. The statement locks rows in any order, so many are written by it only while no
other session writes to the table.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import Delete, Update

from masters.apply import detect, differences, uniqueness
from masters.rules.table_rules import TableRules
from sites import faults
from sites.progress import RowsDone
from sites.sessions.prepared import Prepared
from sites.tables import locks
from sites.writing import counted, triggered, write
from sites.writing.staged import Staged

#: Classes of SQLSTATE that rows cannot cause: connection, resources, operator, system.
_NOT_OF_ROWS = {"08", "53", "57", "58"}

#: With fewer rows than this, but more than one, the usual way takes hardly any time.
MANY = 1_000

#: One change in this many is compared beforehand: a rollback leaves dead rows, and rows
#: in conflict seldom come alone.
SAMPLED = 32


def is_worth_it(rows: int) -> bool:
    """Whether it saves time to write so many rows by one statement."""
    return rows == 1 or rows >= MANY


def written(
    connection: Connection,
    staged: Staged,
    unit: int,
    count: Mapping[str, int],
    rules: TableRules,
    *,
    last: bool,
    on_progress: RowsDone | None = None,
) -> bool:
    """Write a unit that changes this table only; False if its rows must be compared.

    If False, nothing of the unit is written. Constraints are checked as by
    `masters.apply.apply`.

    Parameters:
        count: how many staged rows there are of each kind; see `is_worth_it`.
        last: False leaves deferrable constraints unchecked: there are none, or the
            transaction goes on.
        on_progress: called with the number of rows written. A unit of more than
            `sites.writing.counted.SLICE` rows is not written here then, so that the
            usual way can report progress.
    """
    expected = sum(count.values())
    if on_progress is not None and expected > counted.SLICE:
        return False
    if not _fits(connection, staged, unit, count, rules):
        return False
    (kind,) = count
    faults.point("push.before_at_once")
    savepoint = connection.begin_nested()
    try:
        with triggered.users_search_path(connection):
            statement = _prepared(staged, kind, rules)
            met = statement.run(connection, unit_no=unit).rowcount
            faults.point("push.after_at_once")
            if met == expected and last:
                connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    except DBAPIError as error:
        if not _may_be_rows(error):
            raise
        met = -1  # the usual way meets the same error, if its cause persists
    if met != expected:
        savepoint.rollback()
        return False
    savepoint.commit()
    if on_progress is not None:
        on_progress(expected)
    return True


def _may_be_rows(error: DBAPIError) -> bool:
    """Whether rows may be the cause: not a cancel, a full disk or a lost connection."""
    state = getattr(error.orig, "sqlstate", None) or "08000"
    return not error.connection_invalidated and state[:2] not in _NOT_OF_ROWS


def _fits(
    connection: Connection,
    staged: Staged,
    unit: int,
    count: Mapping[str, int],
    rules: TableRules,
) -> bool:
    """Whether one statement can write the rows, and they seem to agree."""
    may_be = (
        len(count) == 1
        and count.keys() <= {"U", "D"}
        and not rules.ask_when_deleted
        and not _touches_unique_values(connection, staged, unit)
    )
    if sum(count.values()) == 1:
        return may_be
    return (
        may_be
        and not locks.others_write(connection, [staged.table.oid])
        and not _seems_wrong(connection, staged, unit, rules)
    )


def _touches_unique_values(connection: Connection, staged: Staged, unit: int) -> bool:
    """Whether new values are written under a unique constraint besides the key."""
    guarded = {column for unique in staged.breakable() for column in unique.columns}
    return bool(guarded) and uniqueness.touched(connection, staged, guarded, unit)


def _seems_wrong(
    connection: Connection, staged: Staged, unit: int, rules: TableRules
) -> bool:
    """Whether a change in the sample disagrees with the master."""
    groups = rules.partition(staged.beside_key)

    def made() -> Prepared:
        compared = detect.with_rows(
            staged,
            _UNIT,
            groups,
            rules.comparison,
            among=func.mod(staged.source.c.call_no, SAMPLED) == 0,
        )
        wrong = (
            select(sa.literal(1))
            .select_from(compared.joined)
            .where(staged.source.c.unit == _UNIT, compared.wrong)
        )
        return Prepared(wrong.limit(1))

    sample = staged.keep(("sample", SAMPLED, tuple(groups), rules.comparison), made)
    return sample.run(connection, unit_no=unit).first() is not None


#: The unit's number, where a statement is built once.
_UNIT = sa.bindparam("unit_no", 0, sa.BigInteger)


def _prepared(staged: Staged, kind: str, rules: TableRules) -> Prepared:
    """The statement that writes the rows of a kind that are as their changes expect."""
    groups = rules.partition(staged.beside_key)

    def made() -> Prepared:
        build = write.update if kind == "U" else write.delete
        statement = build(staged, {"unit": _UNIT}, kind, was_there=True)
        return Prepared(_agreeing(statement, staged, groups, rules))

    return staged.keep(("at once", kind, tuple(groups), rules.comparison), made)


def _agreeing(
    statement: Update | Delete,
    staged: Staged,
    groups: differences.Groups,
    rules: TableRules,
) -> Update | Delete:
    target = statement.table
    assert isinstance(target, sa.TableClause)
    disagrees: ColumnElement[bool] = differences.unexpected(
        staged, target, groups, rules.comparison
    )
    return statement.where(sa.not_(disagrees))
