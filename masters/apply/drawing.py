"""Drawing a number for each conflict that append sequence may settle."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection

from masters.apply.detect import RowConflicts
from masters.catalog import conflict_number
from masters.resolution.conflict import Subject


def numbered(
    connection: Connection, rows: list[RowConflicts], drawing: Collection[Subject]
) -> list[RowConflicts]:
    """The rows, with a new number for each conflict about one of the subjects."""
    needed = sum(one.subject in drawing for row in rows for one in row.conflicts)
    if not needed:
        return rows
    numbers = iter(
        connection.scalars(
            sa.select(conflict_number.next_value()).select_from(
                sa.func.generate_series(1, needed)
            )
        ).all()
    )
    return [
        replace(
            row,
            conflicts=tuple(
                replace(one, number=next(numbers)) if one.subject in drawing else one
                for one in row.conflicts
            ),
        )
        for row in rows
    ]
