"""Putting parked calls back into work tables, as a push would have shipped them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, cast, func, literal, or_, select

from deferred.batches import work
from deferred.batches.called import ProcedureCall
from deferred.error_catalog import error_call, error_transaction
from deferred.parked import calls, changed_values
from deferred.parked.calls import Call
from deferred.queues import target_columns
from sites import QualifiedName
from sites.errors import ValueDoesNotFit
from sites.tables.analyze import analyze
from sites.tables.table import Table
from sites.transfer import encodings, transport
from sites.transfer.values import from_text, unsized
from sites.writing.staged import Staged


def units(error_id: int, procedures: Sequence[ProcedureCall]) -> list[int]:
    """The unit numbers of a parked transaction's steps in work tables, in order."""
    return [*range(-len(procedures), 0), error_id]


def stage(
    connection: Connection,
    error_id: int,
    instead: Sequence[Call] = (),
    procedures: Sequence[ProcedureCall] = (),
    left_out: Sequence[int] = (),
) -> list[Staged]:
    """Put the row changes of a parked transaction into work tables, by its `units`.

    Parameters:
        instead: edited calls, staged in place of those of the same number.
        procedures: the procedures that it calls; they divide its row changes into
            steps.
        left_out: the numbers of calls that will not be applied: values of theirs that
            this database cannot hold are staged as NULL.

    Raises:
        UnknownTable, UnknownColumn: the master table changed meanwhile.
        TargetColumnsMoved: columns of the master table are others by now.
        ValueDoesNotFit: the encoding of the database lacks characters of a value, or a
            column would round or cut it.
        sqlalchemy.exc.DBAPIError: a column's type can no longer read a value.
    """
    edited_calls = [one.call_no for one in instead]
    _refuse_escaped(connection, error_id, [*edited_calls, *left_out])
    unit = _unit(error_id, procedures)
    staged = []
    for number, row in enumerate(tables(connection, error_id)):
        target = QualifiedName(row.target_schema, row.target_table)
        columns, identity = tuple(row.columns), tuple(row.identity_columns)
        table = target_columns.described(connection, target, columns)
        one = work.stage(connection, number, table, columns, identity)
        edited = [c for c in instead if _belongs(c, one)]
        known = _known(row.target_columns or {}, one.table)
        if known:
            _refuse_moved(known, one)
        types = known and known["types"]
        changed_values.refuse(connection, error_id, types, one, edited, left_out)
        but = [c.call_no for c in edited]
        _insert(connection, error_id, one, unit, but, left_out)
        transport.copy_rows(
            connection,
            one.source,
            work.columns_of(one),
            calls.stage(edited, one, _place(error_id, procedures)),
        )
        if known and (back := [n for n in known.get("back", ()) if n in one.columns]):
            _compare_as_now(connection, one, back)
        analyze(connection, one.source)
        staged.append(one)
    return staged


def _refuse_escaped(connection: Connection, error_id: int, but: Sequence[int]) -> None:
    """Refuse images that are stored escaped in the error queue."""
    if encodings.codec(connection) == encodings.EVERYTHING:
        return
    call = error_call.c
    sides = [cast(side, Text) for side in (call.old_values, call.new_values)]
    found = connection.scalar(
        select(call.conflict)
        .where(call.error_id == error_id, call.call_no.not_in(but))
        .where(or_(*(side.contains(encodings.MARK) for side in sides)))
        .limit(1)
    )
    if found is not None:
        raise ValueDoesNotFit(found)


def tables(connection: Connection, error_id: int) -> Sequence[Row[Any]]:
    """The tables that calls change, with the columns that each carries.

    Of a withdrawn transaction they are snapshots of this site.
    """
    return connection.execute(
        select(
            error_call.c.target_schema,
            error_call.c.target_table,
            error_call.c.identity_columns,
            _columns().label("columns"),
            error_transaction.c.target_columns,
        )
        .join(error_transaction, error_transaction.c.id == error_call.c.error_id)
        .where(error_call.c.error_id == error_id)
        .distinct()
        .order_by("target_schema", "target_table", "identity_columns", "columns")
    ).all()


def _known(parked: Mapping[str, Any], table: Table) -> Mapping[str, Any] | None:
    """What is known of the columns of a table; None if it was made anew since then."""
    known: Mapping[str, Any] | None = parked.get(str(table.qualified))
    return known if known is not None and known["oid"] == table.oid else None


def _refuse_moved(known: Mapping[str, Any], staged: Staged) -> None:
    """Refuse calls whose columns are others now."""
    numbers = {n: known["numbers"][n] for n in staged.columns}
    target_columns.refuse_others(numbers, staged.table)


def _columns() -> sa.ColumnElement[list[str]]:
    image = func.coalesce(error_call.c.new_values, error_call.c.old_values)
    keys = select(func.json_object_keys(image)).correlate(error_call)
    return func.array(keys.scalar_subquery(), type_=sa.ARRAY(Text))


def _compare_as_now(
    connection: Connection, staged: Staged, back: Sequence[str]
) -> None:
    """Have calls start from the values that the master's rows have in some columns.

    The columns were added in place of others: what the site showed is not in them.
    """
    source, target = staged.source, staged.table.sql()
    values: dict[str, sa.ColumnElement[Any]] = {}
    for name in back:
        place = staged.columns.index(name) + 1
        old, new = staged.old(name), staged.new(name)
        left = staged.table.column(name).unchanged(old, new)
        left = sa.and_(source.c.kind != "D", left)
        values[f"o{place}"] = target.c[name]
        values[f"n{place}"] = sa.case((left, target.c[name]), else_=new)
    starts = sa.not_(staged.kind("I", "N"))
    connection.execute(
        sa.update(source).values(values).where(staged.same_row(target), starts)
    )


def _belongs(one: Call, staged: Staged) -> bool:
    described = (staged.table.qualified, staged.columns, staged.identity)
    return (one.target, one.columns, one.identity) == described


def _place(error_id: int, procedures: Sequence[ProcedureCall]) -> Callable[[int], int]:
    """A function that gives the unit of a call, by the call's number."""
    numbers = [one.call_no for one in procedures]
    places = units(error_id, procedures)
    return lambda call_no: places[bisect_left(numbers, call_no)]


def _unit(error_id: int, procedures: Sequence[ProcedureCall]) -> sa.ColumnElement[int]:
    """The same as an expression over rows of `error_call`."""
    last = literal(error_id, sa.BigInteger)
    ends = [
        (error_call.c.call_no < one.call_no, literal(unit, sa.BigInteger))
        for one, unit in zip(procedures, units(error_id, procedures), strict=False)
    ]
    return sa.case(*ends, else_=last) if ends else last


def _insert(
    connection: Connection,
    error_id: int,
    staged: Staged,
    unit: sa.ColumnElement[int],
    but: Sequence[int],
    left_out: Sequence[int],
) -> None:
    old, new = (
        _record(error_call.c[f"{side}_values"], side, staged) for side in ("old", "new")
    )
    types = [staged.table.column(name).recorded for name in staged.columns]
    values = [
        _value(image.c[name], type_, left_out)
        for image in (old, new)
        for name, type_ in zip(staged.columns, types, strict=True)
    ]
    calls = (
        select(
            unit,
            unit,
            sa.false(),
            error_call.c.call_no,
            error_call.c.kind,
            *values,
        )
        .select_from(
            error_call.outerjoin(old, sa.true()).outerjoin(new, sa.true()),
        )
        .where(
            error_call.c.error_id == error_id,
            error_call.c.target_schema == staged.table.schema,
            error_call.c.target_table == staged.table.name,
            error_call.c.identity_columns == list(staged.identity),
            _columns() == literal(list(staged.columns), sa.ARRAY(Text)),
            error_call.c.call_no.not_in(but),
        )
    )
    connection.execute(
        sa.insert(staged.source).from_select(work.columns_of(staged), calls)
    )


def _value(
    text: sa.ColumnElement[str], type_: str, left_out: Sequence[int]
) -> sa.ColumnElement[Any]:
    """A value; NULL if it is of a call that is left out, and cannot be held here."""
    value = from_text(text, type_)
    if not left_out:
        return value
    applied = error_call.c.call_no.not_in(left_out)
    escaped = text.contains(encodings.MARK)
    fits = sa.and_(func.pg_input_is_valid(text, unsized(type_)), sa.not_(escaped))
    return sa.case((or_(applied, fits), value))


def _record(image: sa.ColumnElement[Any], name: str, staged: Staged) -> sa.FromClause:
    """An image as a row of texts."""
    columns = [sa.column(column, Text) for column in staged.columns]
    record = func.json_to_record(image).table_valued(*columns, name=name)
    return record.render_derived(with_types=True).lateral()
