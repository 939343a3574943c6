"""What the planner is told of the machine for statements of ours."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Double, Text, case, cast, func

#: The usual 4 MB make files of a hundred thousand rows; this is bounded as well.
ENOUGH = "32MB"


def enough() -> ColumnElement[Any]:
    """Have the rest of the transaction use as much, where it may not use more."""
    now = func.current_setting("work_mem")
    less = func.pg_size_bytes(now) < func.pg_size_bytes(ENOUGH)
    return func.set_config("work_mem", case((less, ENOUGH), else_=now), True)


def lookups() -> ColumnElement[Any]:
    """Have rows of the rest of the transaction rather looked up than all be read.

    The usual cost of a page is that of a turning disk: with it a twentieth of a
    table's rows have the whole table read, and cost follows the table.
    """
    cost = cast(func.current_setting("random_page_cost"), Double)
    return func.set_config("random_page_cost", cast(func.least(cost, 1.1), Text), True)
