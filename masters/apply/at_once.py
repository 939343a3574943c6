"""Comparing and writing many rows by one statement, where nobody else is at work.

To lock a row writes its page and the log once more than the write itself, and to
compare rows beforehand finds each of them twice. A unit that changes rows of one table,
and all of them alike, needs neither as long as they agree: the one statement writes the
rows that are as its changes expect, and tells how many those were. Where there are
fewer than changes, or anything fails, all is taken back, and the unit is looked at as
ever: its rows locked in the order of their keys, compared and settled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import Delete, Update

from masters.apply import detect, differences, uniqueness
from masters.rules.table_rules import TableRules
from sites import counted, faults, locks, triggered, write
from sites.prepared import Prepared
from sites.staged import Staged

#: Classes of SQLSTATE: connections, resources, operators, the system below.
_NOT_OF_ROWS = {"08", "53", "57", "58"}

#: Fewer rows are locked, compared and written in no time.
MANY = 1_000

#: Of so many changes one is compared beforehand: what is taken back leaves dead rows,
#: and rows in conflict seldom come alone.
SAMPLED = 32


def written(
    connection: Connection,
    staged: Staged,
    unit: int,
    count: Mapping[str, int],
    rules: TableRules,
    *,
    last: bool,
    told: Callable[[int], None] | None = None,
) -> bool:
    """Write a unit that changes this table only; False where it has to be looked at.

    Nothing of it is kept then. Constraints are checked as by `masters.apply.apply`.

    Parameters:
        count: how many staged rows there are of each kind.
        last: False leaves deferrable constraints to what else the transaction does.
        told: how many rows are written; more than `sites.counted.SLICE` are left to it.
    """
    expected = sum(count.values())
    if told is not None and expected > counted.SLICE:
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
        met = -1  # whoever looks at it row by row meets it again, if it is still so
    if met != expected:
        savepoint.rollback()
        return False
    savepoint.commit()
    if told is not None:
        told(expected)
    return True


def _may_be_rows(error: DBAPIError) -> bool:
    """Whether rows may be the reason: not a cancel, a full disk or a lost line."""
    state = getattr(error.orig, "sqlstate", None) or "08000"
    return not error.connection_invalidated and state[:2] not in _NOT_OF_ROWS


def _fits(
    connection: Connection,
    staged: Staged,
    unit: int,
    count: Mapping[str, int],
    rules: TableRules,
) -> bool:
    """Whether the rows are such as one statement writes, and seem to agree."""
    return (
        len(count) == 1
        and count.keys() <= {"U", "D"}
        and sum(count.values()) >= MANY
        and not rules.ask_when_deleted
        and not uniqueness.touched(
            connection, staged, uniqueness.constraints(staged), unit
        )
        and not locks.others_write(connection, [staged.table.oid])
        and not _seems_wrong(connection, staged, unit, rules)
    )


def _seems_wrong(
    connection: Connection, staged: Staged, unit: int, rules: TableRules
) -> bool:
    """Whether a change of those that are looked at disagrees with the master."""
    compared = detect.with_rows(
        staged,
        unit,
        differences.groups_of(staged, rules),
        rules.comparison,
        among=func.mod(staged.source.c.call_no, SAMPLED) == 0,
    )
    wrong = (
        select(sa.literal(1))
        .select_from(compared.joined)
        .where(staged.source.c.unit == unit, compared.wrong)
    )
    return connection.scalar(wrong.limit(1)) is not None


def _prepared(staged: Staged, kind: str, rules: TableRules) -> Prepared:
    """The write of rows of a kind that are as their changes expect."""
    groups = differences.groups_of(staged, rules)

    def made() -> Prepared:
        unit = sa.bindparam("unit_no", 0, sa.BigInteger)
        build = write.update if kind == "U" else write.delete
        statement = build(staged, {"unit": unit}, kind)
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
