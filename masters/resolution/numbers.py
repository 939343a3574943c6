"""Numbers in rules: a check that several methods share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

from masters.errors import InvalidParameter

Number = int | float | Decimal


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
