"""Conditions with parameters in place of the values that differ from site to site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection

from sites.conditions import where
from sites.tables.table import Table
from snaptide.plan.parameters import escaped, literal
from snaptide.plan.phrased import Compared, compared

#: By name of the parameter, the column that it is compared with, and its value.
Values = Mapping[str, tuple[str, str]]


def templated(
    connection: Connection, table: Table, condition: str, values: Values
) -> str:
    """A condition as a file has it, with `${name}` where it compares a value.

    The value of a parameter is put in as a text, which takes its type from the column.
    A number of another type, as an integer that is compared with a bigint, keeps its
    own: the file would have another condition otherwise.

    Parameters:
        connection: to the master, which says whether both mean the same.
    """
    names = {place: name for name, place in values.items()}
    places = [one for one in compared(condition) if (one.column, one.value) in names]

    def meant(typed: bool) -> str:
        return _replaced(
            condition, places, lambda one: f"{literal(one.value)}{_type(one, typed)}"
        )

    def printed(text: str) -> str:
        return where.canonical(connection, table.qualified, text).text

    typed = bool(places) and printed(meant(False)) != printed(condition)
    return _replaced(
        condition,
        places,
        lambda one: f"${{{names[one.column, one.value]}}}{_type(one, typed)}",
        escaped,
    )


def _type(one: Compared, typed: bool) -> str:
    return "::integer" if typed and not one.quoted else ""


def _replaced(
    condition: str,
    places: Sequence[Compared],
    by: Callable[[Compared], str],
    between: Callable[[str], str] = str,
) -> str:
    """A condition with other texts in some places."""
    pieces, last = [], 0
    for one in places:
        pieces += [between(condition[last : one.start]), by(one)]
        last = one.end
    return "".join([*pieces, between(condition[last:])])
