"""The rules of a master in the console: listed, as a document, and what they miss."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from masters import rules
from masters.rules import rulebook
from sites import Directory
from tests.console import Browser, console
from tests.grouped import found_group, without
from tests.linked_table import run, scalar

LONG = ('"<' * 40)[:63]


@pytest.fixture
def browser(sites: Directory, tmp_path: Path) -> Browser:
    return Browser(console(sites, tmp_path))


def test_no_rules(browser: Browser) -> None:
    page = browser.get("/sites/hq/rules")
    assert "There are no rules" in page
    assert "snaptide rules list hq" in page
    assert 'href="/sites/hq/rules"' in browser.get("/sites/hq")


def test_rules_are_listed_and_written_as_a_document(
    sites: Directory, browser: Browser
) -> None:
    hq = sites["hq"]
    run(hq, "CREATE TABLE orders (id int PRIMARY KEY, qty int, note text)")
    run(hq, "CREATE TABLE other (id int PRIMARY KEY, n int)")
    rules.set_column_group(hq, "orders", "amounts", ["qty"])
    rules.add_update_resolution(hq, "orders", "amounts", "overwrite")
    rules.compare_old_values(hq, "orders", ["note"], compare=False)
    rules.set_column_group(hq, "other", "numbers", ["n"])
    page = unescape(browser.get("/sites/hq/rules"))
    for text in ("amounts", "overwrite", "not compared", "none yet", "Nowhere"):
        assert text in page
    [document] = re.findall(r"<pre>(.*?)</pre>", page, re.S)
    assert tomllib.loads(document) == rulebook.export(hq)
    one = browser.get("/sites/hq/rules?table=orders")
    assert "amounts" in one
    assert "numbers" not in one
    assert "no rules for this table" in browser.get("/sites/hq/rules?table=none")
    assert "is not a table name" in browser.get("/sites/hq/rules?table=a.b.c", 400)


def test_rules_by_which_masters_stay_different_are_named(
    make_sites: Callable[..., Directory], tmp_path: Path
) -> None:
    sites = make_sites("hq", "lax")
    found_group(sites, "hq", "lax")
    rules.set_column_group(sites["hq"], "orders", "amounts", ["qty"])
    rules.add_update_resolution(sites["hq"], "orders", "amounts", "overwrite")
    # The other master is not asked.
    with without(sites, "lax") as left:
        page = unescape(Browser(console(left, tmp_path)).get("/sites/hq/rules"))
    assert "<strong>warning</strong>" in page
    assert "each of 2 masters" in page
    assert "snaptide conflicts check hq" in page


def test_many_rules_with_hostile_names_are_cut(
    sites: Directory, browser: Browser
) -> None:
    hq = sites["hq"]
    run(
        hq,
        "INSERT INTO snaptide.column_group (table_schema, table_name, name, columns)"
        f" SELECT $q${LONG}$q$, left($q${LONG}$q$, 61), n::text,"
        f" ARRAY[$q${LONG}$q$, $q$<script>alert(1)</script>$q$]"
        " FROM generate_series(1, 10000) n",
    )
    page = browser.get("/sites/hq/rules")
    assert len(page.encode()) < 80_000
    assert "<script>alert" not in page
    shown = page.count("none yet")
    assert shown
    assert f"1 to {shown} of 10,000" in page
    assert "10,000 to 10,000 of 10,000" in browser.get("/sites/hq/rules?from=9999")
    assert re.search(r"\.\.\. \([\d,]+ characters\)</pre>", page)
    assert scalar(hq, "SELECT count(*) FROM snaptide.rules_version") == 0


def test_a_site_that_is_away(sites: Directory, tmp_path: Path) -> None:
    with without(sites, "hq") as left:
        browser = Browser(console(left, tmp_path))
        assert "The site does not answer" in browser.get("/sites/hq/rules", 503)
