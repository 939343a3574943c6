"""Applying one transaction of an origin at the master: detect, resolve, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func, select, text

from masters import detect, record, rules
from masters.detect import RowConflicts
from masters.errors import InvalidNetChange
from masters.resolve import Explicit, RowResolution, Take, resolve
from sites import write
from sites.write import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One deferred transaction, its net changes staged at the master."""

    #: selects its rows in the work tables
    number: int
    staged: Sequence[Staged]
    #: for each of `staged`, how many rows there are of each kind
    counts: Sequence[Mapping[str, int]]
    origin: str
    master: str
    #: the transaction's id at the origin
    transaction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a transaction."""

    #: conflicts that a rule settled
    resolved: int = 0
    #: why it was not applied: call number -> reason; empty when it was
    unresolved: Mapping[int, str] = field(default_factory=dict)


def apply(connection: Connection, unit: Unit, *, resolving: bool = True) -> Outcome:
    """Apply a transaction whole, or say what stands in its way.

    Call it in a savepoint and roll that back when the outcome is unresolved:
    nothing is undone here. Constraints are checked before it returns.

    Parameters:
        resolving: False leaves every conflict unresolved, whatever the rules.

    Raises:
        sqlalchemy.exc.DBAPIError: the database refused a change.
        RowCountMismatch, InvalidNetChange.
    """
    connection.execute(select(func.set_config("snaptide.origin", unit.origin, True)))
    connection.execute(text("SET CONSTRAINTS ALL DEFERRED"))
    _refuse_invalid(unit)
    resolved, unresolved = 0, {}
    counts = [dict(count) for count in unit.counts]
    for staged, count in zip(unit.staged, counts, strict=True):
        if not count:
            continue
        detect.lock(connection, staged, unit.number)
        table_rules = rules.load(connection, staged.table.qualified)
        for row in detect.detect(
            connection,
            staged,
            unit.number,
            table_rules,
            origin=unit.origin,
            master=unit.master,
        ):
            answer = resolve(row.conflicts, table_rules.rules if resolving else ())
            if not answer.resolved:
                unresolved[row.call_no] = _why(answer)
                continue
            _settle(connection, unit, staged, row, answer, count)
            resolved += len(answer.records)
    if not unresolved:
        write.write(connection, unit.staged, counts, {"unit": unit.number})
        connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    return Outcome(resolved=resolved, unresolved=unresolved)


def _refuse_invalid(unit: Unit) -> None:
    for staged, count in zip(unit.staged, unit.counts, strict=True):
        if count.get("X"):
            raise InvalidNetChange(
                f"{count['X']} rows of {staged.table.qualified} went through steps that"
                " do not follow from one another.",
                table=str(staged.table.qualified),
            )


def _settle(
    connection: Connection,
    unit: Unit,
    staged: Staged,
    row: RowConflicts,
    answer: RowResolution,
    count: dict[str, int],
) -> None:
    """Make the staged row say what was decided, and keep a record of it."""
    record.write(connection, answer, staged.identity, unit.transaction)
    kind = connection.scalar(
        select(staged.source.c.kind).where(_row(staged, unit, row.call_no))
    )
    if answer.ignored or row.conflicts[0].current is None or kind != "U":
        connection.execute(
            sa.delete(staged.source).where(_row(staged, unit, row.call_no))
        )
        count[str(kind)] -= 1
        return
    _rebase(connection, unit, staged, row, answer)


def _rebase(
    connection: Connection,
    unit: Unit,
    staged: Staged,
    row: RowConflicts,
    answer: RowResolution,
) -> None:
    """Let the change start from the master's row and end in what was decided."""
    target = staged.table.sql()
    values: dict[Any, Any] = {}
    for n, name in enumerate(staged.columns, 1):
        source = answer.columns.get(name)
        old, new = staged.source.c[f"o{n}"], staged.source.c[f"n{n}"]
        values[old] = target.c[name]
        if isinstance(source, Explicit):
            values[new] = sa.literal(source.value)
        elif source is Take.CURRENT:
            values[new] = target.c[name]
        elif (
            source is None
        ):  # in no conflict: changed by the call, or by nobody, or left
            same = staged.table.column(name).unchanged(old, new)
            values[new] = sa.case((same, target.c[name]), else_=new)
    connection.execute(
        sa.update(staged.source)
        .values(values)
        .where(_row(staged, unit, row.call_no), staged.same_row(target))
    )


def _row(staged: Staged, unit: Unit, call_no: int) -> sa.ColumnElement[bool]:
    source = staged.source
    return sa.and_(source.c.unit == unit.number, source.c.call_no == call_no)


def _why(answer: RowResolution) -> str:
    return "; ".join(
        f"{one.conflict.kind.value} conflict"
        + (
            f" in column group {one.conflict.column_group}"
            if one.conflict.column_group
            else ""
        )
        + f": {one.reason}"
        for one in answer.unresolved
    )
