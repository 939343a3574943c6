"""Making a text unique by a suffix: shared by two methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from masters.errors import InvalidParameter
from masters.resolution.conflict import Conflict, Decision, Resolution
from masters.resolution.method import check_names, deciding_column, value_of


def checked(
    method: str, parameters: Mapping[str, object], columns: Sequence[str]
) -> dict[str, Any]:
    """The column to change and its length in characters; None if it has no limit.

    Raises:
        RuleError: the column is not one of the constraint's, or the length is no
            positive number.
    """
    check_names(method, parameters, required=["column"], optional=["length"])
    length = parameters.get("length")
    if length is not None and (type(length) is not int or length < 1):
        raise InvalidParameter(
            f"{method}: length must be a number of characters, not {length!r}.",
            method=method,
            parameter="length",
            value=length,
        )
    column = deciding_column(method, parameters["column"], columns)
    return {"column": column, "length": length}


def base(conflict: Conflict, column: str, length: int | None) -> str | None:
    """The site's text without the padding of character(n); None if it has none."""
    value = value_of(conflict.new, column)
    if not isinstance(value, str):
        return None
    return value.rstrip(" ") if len(value) == length else value


def renamed(column: str, value: str) -> Resolution:
    """The answer that writes the site's row, with this value in the column."""
    return Resolution(
        decision=Decision.SITE_WINS,
        values={column: value},
        reason=f"{column} becomes {value!r}",
    )
