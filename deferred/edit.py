"""Edits: values to be written instead of those that a site sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, and_, func, select

from deferred import call
from deferred.call import Call
from deferred.catalog import error_call
from deferred.errors import BadEdit
from deferred.image import Image
from sites import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A value to be written instead of the one that the site sent.

    Parameters:
        call: number of the call, or the table where only one call is about it.
        column: of the master table.
        value: as text that the column's type reads; None is NULL.
    """

    call: int | str
    column: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> Edit:
        """Read `TABLE.COLUMN=VALUE` or `CALL_NO.COLUMN=VALUE`.

        Raises:
            BadEdit: it is of neither form.
        """
        where, equals, value = text.partition("=")
        table, dot, column = where.rpartition(".")
        if not (equals and dot and table and column):
            raise BadEdit(f"{text!r} is not an edit.", edit=text)
        call: int | str = int(table) if table.isdigit() else table
        return cls(call=call, column=column.strip('"'), value=value)


def edited(connection: Connection, error_id: int, edits: Sequence[Edit]) -> list[Call]:
    """The calls of a parked transaction that edits change, as they are to be applied.

    Raises:
        BadEdit: an edit names no call or several, or a column that has no new value.
    """
    calls: dict[int, Call] = {}
    for edit in edits:
        number = _named(connection, error_id, edit)
        if number not in calls:
            calls[number] = call.parked(connection, error_id, number)
        calls[number] = _changed(calls[number], edit)
    return list(calls.values())


def _named(connection: Connection, error_id: int, edit: Edit) -> int:
    """The number of the one call that an edit is about."""
    mine = error_call.c.error_id == error_id
    if isinstance(edit.call, int):
        wanted = and_(mine, error_call.c.call_no == edit.call)
    else:
        table = names.parse(edit.call)
        wanted = and_(
            mine,
            error_call.c.target_schema == table.schema,
            error_call.c.target_table == table.name,
        )
    number = error_call.c.call_no
    count, first = connection.execute(
        select(func.count(), func.min(number)).where(wanted)
    ).one()
    if count != 1:
        what = f"{count} calls" if count else "no call"
        raise BadEdit(f"{edit.call}.{edit.column} names {what}.", edit=edit)
    return int(first)


def _changed(one: Call, edit: Edit) -> Call:
    """The call with a value of the editor's, starting from the row he looked at."""
    if one.new is None or edit.column not in one.new:
        raise BadEdit(
            f"Call {one.call_no} has no new value of {edit.column!r}.", edit=edit
        )
    new: Mapping[str, str | None] = {**one.new, edit.column: edit.value}
    started: Image | None = one.current
    kind = one.kind
    if kind == "U" and started is None:
        kind = "I"
    elif kind == "I" and started is not None and _same_key(one, new, started):
        kind = "U"
    return replace(one, kind=kind, old=started if kind == "U" else one.old, new=new)


def _same_key(one: Call, new: Image, current: Image) -> bool:
    return all(new.get(name) == current.get(name) for name in one.identity)
