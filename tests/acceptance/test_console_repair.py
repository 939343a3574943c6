"""A repair in a real browser: planned, confirmed with a number, and seen to be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from sites import Directory
from tests.console import console
from tests.fix_browser import OpenWindow
from tests.integration import test_web_repair
from tests.linked_table import rows
from tests.looks import barriers, wrong_boxes
from tests.window import Window

pytestmark = pytest.mark.usefixtures("spark")

sites = test_web_repair.sites


def assert_looks_well(window: Window) -> None:
    """Nothing is cut and nobody is kept out, at a desk and on a phone."""
    for width in (360, 1280):
        window.page.set_viewport_size({"width": width, "height": 800})
        assert wrong_boxes(window.page) == []
        assert barriers(window.page) == []


def test_rows_that_have_come_apart_are_mended(
    sites: Directory, tmp_path: Path, open_window: OpenWindow
) -> None:
    window = open_window(console(sites, tmp_path))
    window.log_in()
    window.click("link", "jfk")
    window.click("link", "Checks")
    window.click("link", "1")
    window.click("link", "Plan a repair")
    window.click("button", "Plan")
    window.see(".notice", "3 rows would be mended.")
    assert "name: daffodils" in window.row("id: 1").inner_text()
    assert_looks_well(window)
    window.page.get_by_label("Type 3 to mend them").fill("3")
    window.click("button", "Mend")
    window.see(".notice", "3 rows mended.")
    assert_looks_well(window)
    assert window.clicks < 10
    assert rows(sites["jfk"], "orders") == rows(sites["hq"], "orders")
    window.click("link", "Actions", among=window.page.locator("header"))
    window.see("td", "snaptide rectify jfk 1")
