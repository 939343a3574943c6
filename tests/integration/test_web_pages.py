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

each_page = pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.path)
each_page_of_a_site = pytest.mark.parametrize(
    "page",
    [one for one in pages.PAGES if "{site}" in one.path],
    ids=lambda page: page.path,
)


def address(page: Page, site: str) -> str:
    """A page's path with something in its places."""
    named = "?name=1" if page in (group.PAGE, group_check.LIST) else ""
    return re.sub(r"{\w+(:\w+)?}", "1", page.path.replace("{site}", site)) + named


@each_page
def test_nothing_yet(page: Page, sites: Directory, tmp_path: Path) -> None:
    path = address(page, "jfk")
    answer = Browser(console(sites, tmp_path)).client.get(path)
    # What is about one thing is not there without the thing.
    assert answer.status_code == (404 if "1" in path else 200)
    assert len(answer.content) < 80_000


@each_page_of_a_site
def test_its_site_is_away(page: Page, sites: Directory, tmp_path: Path) -> None:
    with Directory({"gone": sites["hq"].url.set(port=1, host="127.0.0.1")}) as some:
        answer = Browser(console(some, tmp_path)).client.get(address(page, "gone"))
    assert answer.status_code == 503
    assert "The site does not answer" in answer.text


@each_page
@pytest.mark.parametrize("text", [HOSTILE, HOSTILE * 100])
def test_nothing_in_an_address_becomes_markup(
    page: Page, text: str, sites: Directory, tmp_path: Path
) -> None:
    browser = Browser(console(sites, tmp_path))
    for name in PARAMETERS:
        answer = browser.client.get(address(page, "jfk"), params={name: text})
        assert answer.status_code < 500
        assert "<script>alert" not in answer.text
        assert "1520273" not in answer.text
        assert len(answer.content) < 80_000


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
