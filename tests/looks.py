"""How a page looks: boxes that are compared, and what axe says of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

#: What axe looks for again in the other scheme, which changes nothing but colours.
_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
_SCHEMES: dict[Literal["light", "dark"], dict[str, Any]] = {
    "light": {},
    "dark": _COLOURS,
}

#: What it finds to be right is much, and nobody reads it.
_RUN = "options => axe.run(options).then(found => found.violations)"


def wrong_boxes(page: Page) -> list[str]:
    """Texts and controls that are cut, or lie over others, at the window's width."""
    found: list[str] = page.evaluate(_boxes())
    return found


def barriers(page: Page) -> list[str]:
    """What keeps people from using the page, in the light and in the dark."""
    found = []
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    for scheme, options in _SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        violations = page.evaluate(_RUN, {"resultTypes": ["violations"], **options})
        found += [
            f"{scheme}: {one['impact']} {one['id']} {node['target']}"
            for one in violations
            for node in one["nodes"]
        ]
    return found


@cache
def _boxes() -> str:
    return Path(__file__).with_name("boxes.js").read_text("utf-8")
