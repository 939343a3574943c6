"""SQL text that is stored beside the code: one object or query per file."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def load(name: str, package: str = __name__) -> str:
    """The text of `NAME.sql`.

    Parameters:
        package: where the file is; each package has the SQL of its own objects.
    """
    return resources.files(package).joinpath(f"{name}.sql").read_text("utf-8")
