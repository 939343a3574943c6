"""Other rules in the console: compared with those of a master, tried on its record."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import deferred
from masters.analysis import records
from masters.rules import rulebook
from sites import Directory
from tests.console import Browser, console
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import link_orders, run, scalar

PAGE = "/sites/hq/rules/other"
HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }}"
BOOK: dict[str, Any] = {
    "tables": {
        "orders": {
            "groups": {"amounts": ["qty"]},
            "update": [{"group": "amounts", "method": "discard"}],
        }
    }
}
#: The conflict that is there so many times more, perhaps of another column group.
COPIES = """
INSERT INTO snaptide.resolution_record (table_schema, table_name, row_key, master,
  origin, origin_transaction, kind, reference, sequence_no, method, decision, columns,
  old_values, new_values, current_values, result_values, reason)
SELECT table_schema, table_name, row_key, master, origin, origin_transaction, kind,
  $q${name}$q$, sequence_no, method, decision, columns, old_values, new_values,
  current_values, result_values, reason
FROM snaptide.resolution_record, generate_series(1, {count})
"""


@prepared_once("hq", "jfk")
def settled(sites: Directory) -> None:
    """One conflict that the site lost: 10 became 15 there, and 27 at the master."""
    hq, jfk = sites["hq"], sites["jfk"]
    link_orders(sites, "(1, 'a', 10)")
    rulebook.apply(hq, BOOK)
    run(hq, "UPDATE orders SET qty = 27")
    run(jfk, "UPDATE orders SET qty = 15")
    assert deferred.push(jfk).conflicts_resolved == 1


@pytest.fixture
def browser(settled: Directory, tmp_path: Path) -> Browser:
    return Browser(console(settled, tmp_path))


def document(page: str) -> str:
    """The rules in the form of a page."""
    [text] = re.findall(r'<textarea id="document"[^>]*>\n(.*?)</textarea>', page, re.S)
    return unescape(text)


def attempt(browser: Browser, text: str, status: int = 200, **form: str) -> str:
    """The page that other rules lead to."""
    form = {"document": text, "since": "0", **form}
    answer = browser.send(f"{PAGE}/try", form, of=PAGE)
    assert answer.status_code == status, answer.text
    assert len(answer.text.encode()) < 80_000
    return unescape(answer.text)


def test_nothing_yet(sites: Directory, tmp_path: Path) -> None:
    browser = Browser(console(sites, tmp_path))
    assert document(browser.get(PAGE)) == ""
    page = attempt(browser, "")
    assert "These are the rules that hq has." in page
    assert "0 of 0 conflicts" in page


def test_other_rules_are_tried_on_a_conflict(
    settled: Directory, browser: Browser
) -> None:
    hq = settled["hq"]
    before = rulebook.export(hq)
    [one] = records.list_resolutions(hq)
    [link_] = re.findall(
        r'href="([^"]+/rules/other[^"]*)"', browser.get(f"/sites/hq/conflicts/{one.id}")
    )
    form = browser.get(unescape(link_))
    assert f'name="since" inputmode="numeric" value="{one.id - 1}"' in form
    text = document(form).replace("discard", "overwrite")
    assert text != document(form)
    page = attempt(browser, text, keep_others="1")
    assert "1 of 1 conflicts would have ended differently." in page
    for said in ("qty=27", "qty=15", "+ ", "- ", "overwrite", "--keep-others"):
        assert said in page
    assert "snaptide conflicts replay hq --rules rules.toml --since 0" in page
    assert document(page) == text
    assert rulebook.export(hq) == before
    assert scalar(hq, "SELECT count(*) FROM snaptide.operator_action") == 0


def test_the_same_rules_change_nothing(browser: Browser) -> None:
    page = attempt(browser, document(browser.get(PAGE)))
    assert "These are the rules that hq has." in page
    assert "0 of 1 conflicts" in page


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "not TOML"),
        ("tables = 7", "may contain only"),
        ("[tables]\norders = 7", "not of the form"),
        ("[tables.orders]\ngroups = 7", "not of the form"),
        ("[tables.nowhere.groups]\na = ['b']", "nowhere"),
        ('[[tables.orders.update]]\nmethod = "luck"', "luck"),
    ],
)
def test_what_cannot_be_rules_is_kept_and_told(
    browser: Browser, text: str, why: str
) -> None:
    page = attempt(browser, text, status=400)
    assert why in page
    assert document(page) == text


def test_a_form_says_from_which_conflict_on(browser: Browser) -> None:
    for wrong in ("", "x", "-1", "9" * 30, "\u00b2"):
        assert "SNP-434" in attempt(browser, "", status=404, since=wrong)


def test_many_conflicts_are_tried_in_parts(
    settled: Directory, browser: Browser
) -> None:
    hq = settled["hq"]
    run(hq, COPIES.format(name="amounts", count=9_999))
    form = browser.get(PAGE)
    text = document(form).replace("discard", "overwrite")
    assert 'value="9000"' in form
    page = attempt(browser, text)
    assert "1,000 of 1,000 conflicts" in page
    [last] = re.findall(r"more after number (\d+)", page)
    assert f'value="{last}"' in page
    shown = len(re.findall(r'scope="row"', page))
    assert 0 < shown < 1_000
    assert f"{1_000 - shown} more of them are not shown" in page
    assert "There are more" not in attempt(browser, text, since="9000")


def test_hostile_names_and_long_documents(settled: Directory, browser: Browser) -> None:
    hq = settled["hq"]
    run(hq, COPIES.format(name=HOSTILE, count=5))
    text = document(browser.get(PAGE)).replace("discard", "overwrite")
    answer = browser.send(f"{PAGE}/try", {"document": text, "since": "0"}, of=PAGE)
    for page in (answer.text, browser.get(PAGE)):
        assert "<script>alert" not in page
    assert "{{ 7 * 7 }}" in answer.text
    run(
        hq,
        "INSERT INTO snaptide.column_group (table_schema, table_name, name, columns)"
        " SELECT 'public', 'orders', 'g' || n, ARRAY['\"c\"' || n]"
        " FROM generate_series(1, 10000) n",
    )
    page = browser.get(PAGE)
    assert len(page.encode()) < 80_000
    assert "too long for a page" in page
    assert document(page) == ""


def test_a_viewer_sees_the_rules_and_a_site_away_is_told(
    settled: Directory, tmp_path: Path
) -> None:
    viewer = Browser(console(settled, tmp_path), "viewer").get(PAGE)
    assert "<textarea" not in viewer
    assert "discard" in viewer
    with without(settled, "hq") as some:
        browser = Browser(console(some, tmp_path))
        assert "The site does not answer" in browser.get(PAGE, 503)
        assert "The site does not answer" in attempt(browser, "", status=503)
