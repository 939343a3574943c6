"""Edits: values that replace those that a site sent, when a transaction is retried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, and_, func, select

from deferred.batches.called import Argument, ProcedureCall
from deferred.error_catalog import error_call
from deferred.errors import BadEdit
from deferred.parked import calls
from deferred.parked.calls import Call
from deferred.parked.image import Image
from deferred.procedures.steps import Steps
from sites import names
from sites.errors import BadName
from sites.tables import references
from sites.writing.staged import MOVE, UPDATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A value to be written instead of the one that the site sent.

    Parameters:
        call: number of the call, or its table or procedure if no other call has it.
        column: of the master table; for a procedure the number of an argument, from 1.
        value: as text that the column's type reads; None is NULL.
    """

    call: int | str
    column: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> Edit:
        """Read `TABLE.COLUMN=VALUE` or `CALL_NO.COLUMN=VALUE`.

        A procedure's name stands for the table, an argument's number for the column.

        Raises:
            BadEdit: it is of neither form.
        """
        try:
            where, value = names.divided(text, "=", 1)
            *table, column = names.divided(where, ".")
            name = names.plain(column)
        except (BadName, ValueError):
            raise BadEdit(f"{text!r} is not an edit.", edit=text) from None
        if not table or not all(table):
            raise BadEdit(f"{text!r} is not an edit.", edit=text)
        called = ".".join(table)
        call: int | str = int(called) if called.isdigit() else called
        return cls(call=call, column=name, value=value)


def edited(connection: Connection, error_id: int, edits: Sequence[Edit]) -> list[Call]:
    """The calls of a parked transaction that edits change, with the new values.

    Raises:
        BadEdit: an edit names no call or several, or a column that has no new value.
    """
    found: dict[int, list[Edit]] = {}
    for edit in edits:
        found.setdefault(_named(connection, error_id, edit), []).append(edit)
    return [
        _changed(calls.parked(connection, error_id, number), its)
        for number, its in found.items()
    ]


def renames(
    connection: Connection, error_id: int, edits: Sequence[Edit], steps: Steps
) -> bool:
    """Whether edits change the key of a row, or a value that other rows refer to.

    Parameters:
        steps: the parked transaction.
    """
    _, left = procedures(steps.calls, edits)
    tables = {one.table.qualified: one for one in steps.changed}
    for one in edited(connection, error_id, left):
        before = _wanted(calls.parked(connection, error_id, one.call_no))
        staged, new = tables[one.target], one.new or {}
        named = references.referred(connection, staged.table) | {*staged.identity}
        if any(new.get(name) != before.get(name) for name in named):
            return True
    return False


def procedures(
    calls: Sequence[ProcedureCall], edits: Sequence[Edit]
) -> tuple[list[ProcedureCall], list[Edit]]:
    """The procedures of a transaction with edited arguments, and the other edits.

    An edit belongs to a procedure if it gives its number or name; its column is then
    the number of the argument, from 1.

    Raises:
        BadEdit: the procedure is called several times, or has no such argument.
    """
    found, left = list(calls), list[Edit]()
    for edit in edits:
        places = [
            n for n, one in enumerate(found) if edit.call in (one.call_no, one.name)
        ]
        if len(places) > 1:
            raise BadEdit(
                f"{edit.call}.{edit.column} matches {len(places)} calls.", edit=edit
            )
        if places:
            found[places[0]] = _with_argument(found[places[0]], edit)
        else:
            left.append(edit)
    return found, left


def _with_argument(one: ProcedureCall, edit: Edit) -> ProcedureCall:
    arguments = list(one.arguments)
    place = int(edit.column) - 1 if edit.column.isdecimal() else -1
    if not 0 <= place < len(arguments):
        raise BadEdit(f"Call {one.call_no} has no argument {edit.column!r}.", edit=edit)
    argument = arguments[place]
    # A bare NULL has no type; a value in its place is text.
    type_ = argument.type or (None if edit.value is None else "text")
    arguments[place] = Argument(type=type_, value=edit.value)
    return replace(one, arguments=tuple(arguments))


def _named(connection: Connection, error_id: int, edit: Edit) -> int:
    """The number of the one call that an edit names."""
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
        raise BadEdit(f"{edit.call}.{edit.column} matches {what}.", edit=edit)
    return int(first)


def _changed(one: Call, edits: Sequence[Edit]) -> Call:
    """The call with the edited values, starting from the row that the editor saw.

    What kind of change it is, all of them decide together.
    """
    for edit in edits:
        if one.new is None or edit.column not in one.new:
            raise BadEdit(
                f"Call {one.call_no} has no new value of {edit.column!r}.", edit=edit
            )
    given: Image = {edit.column: edit.value for edit in edits}
    new: Image = {**_wanted(one), **given}
    started = one.current
    kind = one.kind
    if kind in UPDATES and started is None:
        kind = "I"
    elif started is not None and kind in ("I", *UPDATES):
        if _same_key(one, new, started):
            kind = "U"
        elif kind == "U":
            kind = MOVE
    return replace(
        one,
        kind=kind,
        old=started if kind in UPDATES else one.old,
        new=new,
        edited=one.edited | {*given},
    )


def _wanted(one: Call) -> Image:
    """The new values of a call, applied to the row that the editor saw.

    Columns that the site has not changed keep the values of that row.
    """
    new = one.new or {}
    if one.kind not in UPDATES or one.old is None or one.current is None:
        return new
    old, current = one.old, one.current
    return {
        name: current[name] if value == old[name] else value
        for name, value in new.items()
    }


def _same_key(one: Call, new: Image, current: Image) -> bool:
    return all(new.get(name) == current.get(name) for name in one.identity)
