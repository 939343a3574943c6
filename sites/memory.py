"""How much memory a statement of ours may sort and join in."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, case, func

#: The usual 4 MB make files of a hundred thousand rows; this is bounded as well.
ENOUGH = "32MB"


def enough() -> ColumnElement[Any]:
    """Have the rest of the transaction use as much, where it may not use more."""
    now = func.current_setting("work_mem")
    less = func.pg_size_bytes(now) < func.pg_size_bytes(ENOUGH)
    return func.set_config("work_mem", case((less, ENOUGH), else_=now), True)
