"""Images of rows as JSON: each value as text that the database prints and reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, literal
from sqlalchemy.dialects.postgresql import array

from sites.transfer.values import printed

#: Column -> value as the database prints it; None is NULL.
Image = Mapping[str, str | None]


def as_json(
    columns: Sequence[str], values: Sequence[ColumnElement[Any]]
) -> ColumnElement[Any]:
    """An object of columns in their order, and values as text."""
    return func.json_object(
        array([literal(name) for name in columns]),
        array([printed(value) for value in values]),
    )
