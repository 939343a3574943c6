"""The tables of docs/reference/statements.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "statements.md"

#: With these words the second column of a row can begin.
OUTCOMES = ("captured", "refused", "doctor", "possible", "left out")


def sections() -> dict[str, dict[str, str]]:
    """For each section: the statement of each row, and what becomes of it."""
    found: dict[str, dict[str, str]] = {}
    for title, statement, outcome in _rows():
        assert statement not in found.setdefault(title, {}), statement
        found[title][statement] = outcome
    return found


def _rows() -> Iterator[tuple[str, str, str]]:
    title = ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith("| ") and not line.endswith("what becomes of it |"):
            statement, outcome = line.strip("| ").split(" | ")
            yield title, statement, outcome
