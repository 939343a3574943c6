"""Refusing to apply parked or edited values that their columns would round or cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Text, select

from deferred.error_catalog import error_call
from deferred.errors import ValueWouldChange
from deferred.parked.calls import Call
from deferred.queues import target_columns
from sites.errors import ValueDoesNotFit
from sites.tables import lossy
from sites.transfer.values import unnested
from sites.writing import misfits
from sites.writing.staged import Staged


def refuse(
    connection: Connection,
    error_id: int,
    types: Mapping[str, str] | None,
    staged: Staged,
    edited: Sequence[Call],
    left_out: Sequence[int] = (),
) -> None:
    """Refuse new values of a parked transaction that a table would round or cut.

    Parameters:
        types: of the columns where the values were made; None if nothing is known.
        edited: the calls that are applied instead of those of their numbers.
        left_out: the numbers of calls that are not applied.

    Raises:
        ValueDoesNotFit: the message gives the call, the column, the value, and what
            the column would store.
    """
    known = [types[name] if types else None for name in staged.columns]
    narrower = target_columns.narrower(staged.columns, known, staged.table)
    for name, type_ in narrower.items():
        but = [*left_out, *(one.call_no for one in edited)]
        values = _parked(error_id, staged, name, but)
        _refuse(connection, values, staged, name, type_)
    for name in staged.columns:
        theirs = [one for one in edited if name in one.edited]
        made_here = lossy.as_written(staged.table.column(name).recorded)
        if theirs and made_here:
            _refuse(connection, _new(theirs, name), staged, name, made_here)
        others = [one for one in edited if name not in one.edited and _sets(one, name)]
        if others and name in narrower:
            _refuse(connection, _new(others, name), staged, name, narrower[name])


def _refuse(
    connection: Connection, values: sa.FromClause, staged: Staged, name: str, type_: str
) -> None:
    """Refuse values of a column, given with the numbers of their calls."""
    into = staged.table.column(name).recorded
    value = values.c.value
    found = connection.execute(
        select(values.c.call_no, value, lossy.becomes(value, into).label("becomes"))
        .where(lossy.changes(value, type_, into))
        .order_by(values.c.call_no)
        .limit(1)
    ).one_or_none()
    if found is not None:
        why = f"{lossy.WOULD_BECOME}{found.becomes}"
        told = misfits.message(staged.table.qualified, name, found.value, why)
        raise ValueDoesNotFit(
            f"Call {found.call_no}: {told}", sqlstate=ValueWouldChange.code
        )


def _parked(
    error_id: int, staged: Staged, name: str, but: Sequence[int]
) -> sa.FromClause:
    """The new values of a column in a parked transaction, as its site sent them."""
    old, new = (
        error_call.c[f"{side}_values"].op("->>")(name) for side in ("old", "new")
    )
    return (
        select(error_call.c.call_no, sa.cast(new, Text).label("value"))
        .where(
            error_call.c.error_id == error_id,
            error_call.c.target_schema == staged.table.schema,
            error_call.c.target_table == staged.table.name,
            error_call.c.call_no.not_in(but),
            new.is_distinct_from(old),
        )
        .subquery()
    )


def _new(edited: Sequence[Call], name: str) -> sa.FromClause:
    """The new values of a column in edited calls."""
    numbers = [one.call_no for one in edited]
    values = [(one.new or {})[name] for one in edited]
    columns: Mapping[str, Any] = {
        "call_no": (sa.BigInteger(), numbers),
        "value": (Text(), values),
    }
    return unnested("edited", columns)


def _sets(one: Call, name: str) -> bool:
    """Whether a call gives a column a value that its row did not have."""
    new = one.new or {}
    return name in new and new[name] != (one.old or {}).get(name)
