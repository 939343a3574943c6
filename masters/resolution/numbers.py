"""Numbers in rules and columns: checks that several methods share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation

from masters.errors import InvalidParameter, WrongColumnCount

Number = int | float | Decimal

#: Holds any sum of PostgreSQL's numeric (131,072 digits before the point and
#: 16,383 after it), and raises rather than round.
EXACT = Context(prec=150_000, traps=[Inexact, InvalidOperation])


def single_column(method: str, columns: Sequence[str]) -> str:
    """The one column of a group, for methods that compute its value.

    Raises:
        WrongColumnCount: the group has none or several.
    """
    if len(columns) != 1:
        raise WrongColumnCount(
            f"{method} needs a column group of one numeric column; this one has "
            f"{len(columns)}: {', '.join(columns)}.",
            method=method,
            columns=tuple(columns),
        )
    return columns[0]


def numbered(method: str, parameter: str, value: object) -> dict[str, Number]:
    """A copy of a parameter that maps names to numbers.

    Raises:
        InvalidParameter: it is no mapping, is empty, or maps anything but text to
            comparable numbers.
    """
    if not isinstance(value, Mapping) or not value:
        raise InvalidParameter(
            f"{method}: {parameter} must map names to numbers.",
            method=method,
            parameter=parameter,
            value=value,
        )
    for name, number in value.items():
        if not isinstance(name, str) or not _is_number(number):
            raise InvalidParameter(
                f"{method}: {name!r}: {number!r} does not map a name to a number.",
                method=method,
                parameter=parameter,
                value=value,
            )
    return dict(value)


def _is_number(value: object) -> bool:
    """Whether a value is a number that compares with every other: no bool, no NaN."""
    if isinstance(value, bool) or not isinstance(value, Number):
        return False
    return not math.isnan(value)
