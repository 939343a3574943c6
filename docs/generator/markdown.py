"""Pieces of Markdown, and what docstrings and comments become in it."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from collections.abc import Iterable

from snaptide.cli.options import meanings


def comments(kind: type) -> dict[str, str]:
    """The `#:` comments above the fields of a class, as cells of a table."""
    return {name: cell(text) for name, text in meanings(kind).items()}


_SECTION = re.compile(r"(Parameters|Returns|Raises)(?: \(.*\))?:(.*)")


def docstring(text: str | None) -> list[str]:
    """A docstring as Markdown: prose, and lists for what it says of parameters."""
    parts = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        section = _SECTION.fullmatch(head.strip())
        if section and rest:
            parts.append(f"{section[1]}:\n\n{_list(section[1], rest)}")
        else:
            parts.append(_line(paragraph))
    return parts


def _list(section: str, text: str) -> str:
    entries = [_line(text)] if section == "Returns" else _items(textwrap.dedent(text))
    return "\n".join(f"- {entry}" for entry in entries)


def _items(text: str) -> list[str]:
    """Entries that begin at the margin and go on indented."""
    entries: list[list[str]] = []
    names = re.compile(r"[*\w][\w, *]*(?:\.|:|$)")
    for line in text.splitlines():
        if entries and (line.startswith(" ") or not names.match(line)):
            entries[-1].append(line.strip())
        else:
            entries.append([line.strip()])
    return [_named(_line(" ".join(entry))) for entry in entries]


def _named(entry: str) -> str:
    name, colon, meaning = entry.partition(": ")
    if not colon or not re.fullmatch(r"[*\w, ]+", name):
        return entry
    return f"{', '.join(f'`{n.strip()}`' for n in name.split(','))}: {meaning}"


def prose(text: str | None) -> str:
    """A docstring as paragraphs of one line each."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(_line(p) for p in paragraphs)


def first_paragraph(text: str) -> str:
    """What a docstring says first."""
    return _line(inspect.cleandoc(text).partition("\n\n")[0])


def _line(text: str) -> str:
    """Text on one line, without pointers to a document that readers do not have."""
    return re.sub(r" \(design [\d., ]+\)", "", " ".join(text.split()))


def code(text: str) -> str:
    """A block of Python."""
    return f"```python\n{text}\n```"


def cell(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "&#124;").replace("\n", " ")


def code_cell(text: str) -> str:
    """Code that may stand in a table.

    Between backquotes some readers take a backslash before a bar for what it is, and
    others need one.
    """
    if "|" not in text:
        return f"`{text}`"
    return f"<code>{cell(html.escape(text, quote=False))}</code>"


def table(head: list[str], rows: Iterable[tuple[str, ...]]) -> str:
    """A table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
