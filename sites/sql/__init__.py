"""SQL text that is stored beside the code: one object or query per file."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def load(name: str) -> str:
    """The text of `sites/sql/NAME.sql`."""
    return resources.files(__name__).joinpath(f"{name}.sql").read_text("utf-8")
