"""Naming users' triggers that may do their work twice."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Group, RenderableType
from rich.text import Text

_WHY = (
    "These triggers fire for what others have changed, too: {}. Where one writes rows"
    " that are replicated themselves, and has done so where the change was made, they"
    " are written twice. Let it do that only where snaptide.comes_from() IS NULL."
)


def with_triggers(shown: RenderableType, names: Collection[str]) -> RenderableType:
    """What is shown, and below it the triggers that are to be looked at, if any."""
    if not names:
        return shown
    return Group(shown, Text(_WHY.format(", ".join(names))))
