"""Warns of users' triggers that may write rows twice."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Group, RenderableType
from rich.text import Text

_WHY = (
    "These triggers also fire for changes of other sites: {}. If one of them writes "
    "replicated rows, and has done so where the change was made, those rows are "
    "written twice. Make it write them only if snaptide.comes_from() IS NULL."
)


def with_triggers(shown: RenderableType, names: Collection[str]) -> RenderableType:
    """Add a warning about these triggers, if any, below the output."""
    if not names:
        return shown
    return Group(shown, Text(_WHY.format(", ".join(names))))
