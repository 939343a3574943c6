"""Settings of memory and planner costs for our statements."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Double, Text, case, cast, func

#: With the default of 4 MB, a hundred thousand rows go to files; this is bounded, too.
ENOUGH = "32MB"


def raise_work_mem() -> ColumnElement[Any]:
    """Raise work_mem to `ENOUGH` for the rest of the transaction, if it is lower."""
    now = func.current_setting("work_mem")
    less = func.pg_size_bytes(now) < func.pg_size_bytes(ENOUGH)
    return func.set_config("work_mem", case((less, ENOUGH), else_=now), True)


def lookups() -> ColumnElement[Any]:
    """Let the planner prefer index lookups for the rest of the transaction.

    The default cost of a random page is that of a spinning disk: with it, a query for a
    twentieth of a table's rows reads the whole table, so that its time grows with the
    table.
    """
    cost = cast(func.current_setting("random_page_cost"), Double)
    return func.set_config("random_page_cost", cast(func.least(cost, 1.1), Text), True)
