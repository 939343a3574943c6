"""Writes the pages of the reference that follow from the code: `make docs` runs it.

`python -m docs.generate --check` writes nothing, and ends with 1 when a page is not
what the code says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generator import api, cli, errors, fault_points, settings

FOLDER = Path(__file__).parent / "reference"

_NOTICE = (
    "<!-- Written by docs/generate.py from the code. Do not edit; run: make docs -->"
)


def pages() -> dict[str, str]:
    """All generated pages, by file name."""
    made = {
        "api.md": api.page(),
        "cli.md": cli.page(),
        "errors.md": errors.page(),
        "fault-points.md": fault_points.page(),
        "settings.md": settings.page(),
    }
    return {name: _with_notice(text) for name, text in made.items()}


def _with_notice(text: str) -> str:
    """Below the heading: only a page that begins with it has its title in menus."""
    heading, rest = text.rstrip().split("\n", 1)
    return f"{heading}\n\n{_NOTICE}\n{rest}\n"


def outdated() -> list[str]:
    """Names of pages that are not what the code says."""
    return [name for name, text in pages().items() if _present(name) != text]


def _present(name: str) -> str | None:
    file = FOLDER / name
    return file.read_text("utf-8") if file.is_file() else None


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` say which are old."""
    if "--check" not in arguments:
        for name, text in pages().items():
            (FOLDER / name).write_text(text, "utf-8")
        return 0
    old = outdated()
    for name in old:
        sys.stderr.write(f"{name} is not up to date; run: make docs\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
