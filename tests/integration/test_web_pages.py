"""What holds for each page of the console, those to come included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sites import Directory
from snaptide.web import pages
from snaptide.web.page import Page
from snaptide.web.pages import group, group_check
from tests.console import Browser, console
from tests.linked_table import run

HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 1237 * 1229 }} \u202e"
#: All that any page takes from its address.
PARAMETERS = ["from", "to", "name", "group", "table", "key", "master", "origin"]
PARAMETERS += [
    "reason",
    "method",
    "snapshot",
    "since",
    "page",
    "after",
    "examine",
    "before",
]


def address(page: Page, site: str) -> str:
    """A page's path with something in its places."""
    named = "?name=1" if page in (group.PAGE, group_check.LIST) else ""
    return re.sub(r"{\w+(:\w+)?}", "1", page.path.replace("{site}", site)) + named


def test_nothing_yet(
    sites: Directory, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    browser = Browser(console(sites, tmp_path))
    for page in pages.PAGES:
        with subtests.test(page=page.path):
            path = address(page, "jfk")
            answer = browser.client.get(path)
            # What is about one thing is not there without the thing.
            assert answer.status_code == (404 if "1" in path else 200)
            assert len(answer.content) < 80_000


def test_its_site_is_away(
    sites: Directory, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    with Directory({"gone": sites["hq"].url.set(port=1, host="127.0.0.1")}) as some:
        browser = Browser(console(some, tmp_path))
        for page in pages.PAGES:
            if "{site}" not in page.path:
                continue
            with subtests.test(page=page.path):
                answer = browser.client.get(address(page, "gone"))
                assert answer.status_code == 503
                assert "The site does not answer" in answer.text


@pytest.mark.parametrize("text", [HOSTILE, HOSTILE * 100])
def test_nothing_in_an_address_becomes_markup(
    text: str, sites: Directory, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    browser = Browser(console(sites, tmp_path))
    for page in pages.PAGES:
        with subtests.test(page=page.path):
            for name in PARAMETERS:
                path = address(page, "jfk")
                answer = browser.client.get(path, params={name: text})
                assert answer.status_code < 500, name
                assert "<script>alert" not in answer.text, name
                assert "1520273" not in answer.text, name
                assert len(answer.content) < 80_000, name


def test_nothing_in_the_log_of_actions_becomes_markup(
    sites: Directory, tmp_path: Path
) -> None:
    run(
        sites["jfk"],
        "INSERT INTO snaptide.operator_action (operator, role, command, outcome)"
        f" SELECT $q${HOSTILE}$q$, 'operator', $q${HOSTILE}$q$, $q${HOSTILE}$q$",
    )
    page = Browser(console(sites, tmp_path)).get("/actions")
    assert page.count("&lt;script&gt;") == 3
    assert "<script>alert" not in page
