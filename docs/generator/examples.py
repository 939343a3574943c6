"""The examples of the pages: blocks of Python, with what they print.

The blocks of a page are one program, in their order: a later one may use what an
earlier one has imported or found. `tests/acceptance/test_examples.py` runs them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]

#: Its script is run with the page's commands, by `tests/acceptance/test_tutorial.py`.
TUTORIAL = ROOT / "docs" / "tutorial.md"

#: Signatures, and a test.
_OTHER_PYTHON = {ROOT / "docs" / "reference" / "api.md", ROOT / "CONTRIBUTING.md"}

_BLOCK = re.compile(
    r"^#+ (?P<heading>[^\n]+?)(?: +\{ *#(?P<anchor>[\w-]+) *\})?$"
    r"|^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?"
    r"|^```.*?^```$",
    re.M | re.S,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A block of Python, and what the page says that it prints."""

    page: Path
    #: how many lines of the page stand above it
    above: int
    #: of the section that it is in, and what links to it name
    heading: str
    anchor: str
    code: str
    #: the block of text below it; None if there is none
    printed: str | None

    def compiled(self) -> CodeType:
        """Its code, which tracebacks show as lines of the page."""
        return compile("\n" * self.above + self.code, str(self.page), "exec")


def pages() -> list[Path]:
    """The pages that have examples."""
    all_pages = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}
    return sorted(page for page in all_pages - _OTHER_PYTHON if examples(page))


@cache
def examples(page: Path) -> list[Example]:
    """The examples of a page, in their order."""
    text, heading, anchor = page.read_text("utf-8"), "", ""
    found = []
    for block in _BLOCK.finditer(text):
        if block["heading"]:
            heading = block["heading"]
            anchor = block["anchor"] or _anchor(heading)
        if block["code"]:
            found.append(
                Example(
                    page=page,
                    above=text.count("\n", 0, block.start("code")),
                    heading=heading,
                    anchor=anchor,
                    code=block["code"],
                    printed=block["printed"],
                )
            )
    return found


def _anchor(heading: str) -> str:
    """The anchor that MkDocs gives a heading which has none of its own."""
    return "-".join(re.sub(r"[^\w\s-]", "", heading).lower().split())


def uses(page: Path) -> dict[str, Example]:
    """The dotted names that a page's examples use, each with the first that does.

    What stands in a function that the page defines does not count: nothing says that
    it is called.
    """
    imported: dict[str, str] = {}
    used: dict[str, Example] = {}
    for example in examples(page):
        for node in _executed(ast.parse(example.code)):
            if isinstance(node, ast.Import):
                imported |= {one.asname or one.name: one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {
                    one.asname or one.name: f"{node.module}.{one.name}"
                    for one in node.names
                }
            elif name := _dotted(node, imported):
                used.setdefault(name, example)
    return used


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree, without the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                yield from ast.walk(decorator)
        elif not isinstance(node, ast.Lambda):
            yield node
            yield from _executed(node)


def _dotted(node: ast.AST, imported: dict[str, str]) -> str | None:
    """What a name stands for; None if it does not begin with an imported one."""
    if isinstance(node, ast.Name):
        return imported.get(node.id)
    if isinstance(node, ast.Attribute) and (above := _dotted(node.value, imported)):
        return f"{above}.{node.attr}"
    return None
