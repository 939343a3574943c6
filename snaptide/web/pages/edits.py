"""Reads from a form which new values of a parked transaction a user has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import deferred
from deferred import Edit, ErrorCall
from sites import Site, names

#: A field of the form: one of these, the number of a call, a dot, and a column.
VALUE, NULL = "value.", "null."


def edits_of(site: Site, number: int, form: Mapping[str, Any]) -> list[Edit]:
    """The edits that a form asks for.

    Parameters:
        number: of the parked transaction.
        form: has, for each value that may change, what the user wants.

    Raises:
        NoSuchError, SiteUnreachable.
    """
    named = [name for name in form if name.startswith(VALUE)]
    if not named:
        return []
    first = min(_place(name)[0] for name in named)
    last = max(_place(name)[0] for name in named)
    limit = max(len(named), last - first + 1)
    error = deferred.show_error(site, number, after=first - 1, limit=limit, now=False)
    by_number = {call.call_no: call for call in error.calls}
    return [edit for name in named for edit in _edit(by_number, form, name)]


def words_of(edits: list[Edit]) -> Iterator[str]:
    """Edits as arguments of `snaptide errors retry`."""
    for edit in edits:
        column = edit.column
        if any(char in column for char in '.="'):
            column = names.quoted(column)
        if edit.value is None:
            yield from ("--null", f"{edit.call}.{column}")
        else:
            yield from ("--edit", f"{edit.call}.{column}={edit.value}")


def _edit(
    calls: Mapping[int, ErrorCall], form: Mapping[str, Any], name: str
) -> Iterator[Edit]:
    number, column = _place(name)
    call = calls.get(number)
    if call is None or call.new is None or column not in call.new:
        return
    value, was = _as_sent(str(form[name])), call.new[column]
    null = bool(form.get(f"{NULL}{number}.{column}"))
    if was is None:
        # Whoever writes something where NULL was means it, and may forget the box.
        if value or not null:
            yield Edit(call=number, column=column, value=value)
    elif null or _as_sent(was) != value:
        yield Edit(call=number, column=column, value=None if null else value)


def _place(name: str) -> tuple[int, str]:
    number, _, column = name.removeprefix(VALUE).partition(".")
    return (int(number) if number.isdecimal() else 0), column


def _as_sent(value: str) -> str:
    """A value with the line ends that a browser leaves of it."""
    return value.replace("\r\n", "\n").replace("\r", "\n")
