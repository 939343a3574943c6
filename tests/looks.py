"""How a page looks: boxes that are compared, and what axe says of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

#: What axe looks for again in the other scheme, which changes nothing but colours.
_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
_SCHEMES: dict[Literal["light", "dark"], dict[str, Any]] = {
    "light": {},
    "dark": _COLOURS,
}


def wrong_boxes(page: Page) -> list[str]:
    """Texts and controls that are cut, or lie over others, at the window's width."""
    found: list[str] = page.evaluate(_boxes())
    return found


def barriers(page: Page) -> list[str]:
    """What keeps people from using the page, in the light and in the dark."""
    found = []
    for scheme, options in _SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        options = {"resultTypes": ["violations"], **options}
        answer = Axe().run(page, options=options).response
        found += [
            f"{scheme}: {one['impact']} {one['id']} {node['target']}"
            for one in answer["violations"]
            for node in one["nodes"]
        ]
    return found


@cache
def _boxes() -> str:
    return Path(__file__).with_name("boxes.js").read_text("utf-8")
