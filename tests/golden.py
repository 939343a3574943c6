"""SQL compared with a file, so that a review shows it as it will run.

`UPDATE_EXPECTED=1 make test` writes the files anew.
"""

import os
from pathlib import Path
from typing import Any

from sqlalchemy.dialects import postgresql
from sqlalchemy.sql import ClauseElement

_BREAKS = (" FROM ", " WHERE ", " AND ", " OR ", " ORDER BY ", " GROUP BY ")

FOLDER = Path(__file__).parent / "expected"


def assert_as_expected(statement: ClauseElement, name: str) -> None:
    """Compare a statement with tests/expected/<name>.sql."""
    file = FOLDER / f"{name}.sql"
    rendered = render(statement)
    if os.environ.get("UPDATE_EXPECTED"):
        file.write_text(rendered, encoding="utf-8")
    assert rendered == file.read_text(encoding="utf-8")


def render(statement: ClauseElement) -> str:
    """A statement with its values in it, one select item or condition a line."""
    dialect: Any = postgresql.dialect(paramstyle="pyformat")
    compiled = statement.compile(
        dialect=dialect, compile_kwargs={"literal_binds": True}
    )
    return "\n".join(_wrapped(line) for line in str(compiled).splitlines()) + "\n"


def _wrapped(line: str) -> str:
    """Break a line after commas and before key words, outside of parentheses."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(line):
        depth += (char == "(") - (char == ")")
        if depth or at == start:
            continue
        if line.startswith(", ", at):
            parts.append(line[start : at + 1])
            start = at + 2
        elif line.startswith(_BREAKS, at):
            parts.append(line[start:at])
            start = at + 1
    parts.append(line[start:])
    return "\n    ".join(part.rstrip() for part in parts)
