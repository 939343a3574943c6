"""How pages of the console look: nothing is cut, nothing keeps anybody out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.routing import Route

import deferred
from sites import Directory
from sites.sessions import identity
from snaptide.web import pages
from synchronous.gid import Gid
from tests.console import console
from tests.fix_browser import OpenWindow
from tests.integration.test_web_group_checks import differing, finds, found, report
from tests.linked_table import application, as_refresh, parked, run, run_each
from tests.looks import barriers, wrong_boxes
from tests.window import Window

#: Of a desktop, of a window that is just wide enough for tables, of a phone.
WIDTHS = (1280, 820, 360)
HEIGHT = 800
HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }} \u202e"
#: Nowhere can it be broken between words.
LONG = "x" * 250

PAGES = (
    "/",
    "/errors",
    "/actions",
    "/work",
    "/history",
    "/history?table=orders&key=1&master=",
    "/history?table=nowhere&key=1&master=",
    "/sites/hq",
    "/sites/jfk",
    "/sites/lax",
    "/sites/hq/errors",
    "/sites/lax/errors",
    "/sites/hq/conflicts",
    "/sites/hq/rules",
    "/sites/hq/rules/other",
    "/sites/jfk/queue?to=hq",
    "/sites/hq/queue?to=lax",
    "/sites/jfk/schedules",
    "/sites/hq/replication-groups",
    "/sites/hq/replication-group?name=sales",
    "/sites/hq/replication-group/checks?name=sales",
    "/sites/hq/indoubt",
    "/sites/jfk/checks",
    "/sites/jfk/checks/1",
    "/sites/jfk/checks/1/repair",
    "/sites/jfk/groups/airport",
    "/sites/jfk/doctor?examine=now",
    "/sites/gone",
    "/sites/gone/errors",
    "/sites/gone/groups/airport",
    "/nowhere",
)

WRONG = """<!doctype html><html><head><title>Wrong</title></head><body>
<p style="width: 5em; white-space: nowrap">This leaves its place</p>
<div style="width: 5em; overflow: hidden">
<p style="width: 20em">This is cut here</p></div>
<p style="position: absolute; top: 150px; margin: 0">This lies below</p>
<p style="position: absolute; top: 155px; margin: 0">This lies above</p>
<p style="position: absolute; top: 200px; left: 95%; width: 20em">This is outside</p>
<p style="color: #eee; background: #fff">This is pale</p><input>
</body></html>"""


@pytest.fixture
def spoilt(planted: Directory) -> Iterator[Directory]:
    """Names, values and errors that somebody hostile has chosen, and long ones."""
    hq, jfk, lax = planted["hq"], planted["jfk"], planted["lax"]
    text = f"$q${HOSTILE} {LONG}$q$"
    as_refresh(hq, "UPDATE orders SET qty = 98 WHERE id = 2")
    run(jfk, f"UPDATE orders SET qty = 32, note = {text} WHERE id = 2")
    deferred.push(jfk)
    run_each(
        jfk,
        f"UPDATE snaptide.schedule SET last_error = {text} WHERE kind = 'purge'",
        f"UPDATE snaptide.destination SET last_error = {text} WHERE name = 'hq'",
        "INSERT INTO snaptide.refresh_group (name, master, master_id, last_error)"
        f" VALUES ({text}, 'hq', gen_random_uuid(), {text})",
        f"INSERT INTO snaptide.\"extra$_codes\" (k1, reason) VALUES ({text}, 'held')",
    )
    run(
        lax,
        "INSERT INTO snaptide.operator_action (operator, role, command, outcome)"
        f" VALUES ('anna', 'operator', {text}, {text})",
    )
    run(hq, "UPDATE snaptide.resolution_record SET reason = $q$" + LONG + "$q$")
    with jfk.connect() as connection:
        gid = f"'{Gid.of(identity.read(connection), 1)}'"
    with application(hq) as session:
        session.execute("SELECT 1")
        session.execute(f"PREPARE TRANSACTION {gid}")
        session.autocommit = True
        yield planted
        session.execute(f"ROLLBACK PREPARED {gid}")


@pytest.fixture
def with_gone(spoilt: Directory) -> Iterator[Directory]:
    """The same sites, and one that does not answer."""
    urls = {one.name: one.url for one in spoilt.values()}
    urls["gone"] = urls["hq"].set(port=1, host="127.0.0.1")
    with Directory(urls) as some:
        yield some


@pytest.fixture
def window(
    with_gone: Directory,
    tmp_path: Path,
    open_window: OpenWindow,
    monkeypatch: pytest.MonkeyPatch,
) -> Window:
    rows = [differing(n, HOSTILE * 9, detail=HOSTILE) for n in range(3)]
    finds(monkeypatch, report(found("public.prices", *rows), left_out={"bos": HOSTILE}))

    def run_schedule(*_: object) -> str:
        return "a task"

    return open_window(console(with_gone, tmp_path, run_schedule=run_schedule))


def walk(window: Window, sites: Directory) -> Iterator[str]:
    """Open each page in turn, those that actions show as well; says which it is."""
    window.open("/login")
    yield "the login"
    window.log_in("administrator")
    for path in PAGES:
        window.open(path)
        yield path
    window.open("/sites/hq/conflicts")
    window.page.locator("tbody th a").click()
    yield "a conflict"
    number = max(one for one, *_ in parked(sites["hq"]))
    window.open("/sites/hq/queue?to=lax")
    window.page.locator("tbody th a").click()
    yield "a queued transaction"
    window.open(f"/sites/hq/errors/{number}")
    yield "a parked transaction"
    window.click("button", "Preview")
    yield "a preview of what is refused"
    window.page.get_by_label("New value of qty").fill("33")
    window.click("button", "Preview")
    window.see("p", "A retry would apply it.")
    yield "a preview"
    window.click("button", "Give up ...")
    yield "the question before giving up"
    window.open("/sites/hq/indoubt")
    window.see("th", "snaptide:")
    window.page.locator("td button").first.click()
    window.see("h1", "a transaction in doubt at hq?")
    yield "the question before ending a transaction in doubt"
    window.open("/sites/hq/rules/other")
    rules = window.page.get_by_label("Rules", exact=True)
    rules.fill(rules.input_value().replace("discard", "overwrite"))
    window.click("button", "Try")
    window.see("p", "conflicts would have ended differently")
    yield "a trial of rules"
    window.open("/sites/hq/replication-group/checks?name=sales")
    window.click("button", "Check all masters now")
    window.see("h2", "Rows that differ")
    yield "a check of masters"
    window.open("/sites/jfk/schedules")
    window.click("button", "Run refresh airport now")
    window.see(".notice", "Given to the workers as task")
    yield "a schedule that was asked for"


def test_no_text_is_cut_or_lies_over_another(spoilt: Directory, window: Window) -> None:
    wrong, seen = dict[tuple[str, int], list[str]](), list[str]()
    for where in walk(window, spoilt):
        seen.append(urlsplit(window.page.url).path)
        for width in WIDTHS:
            window.page.set_viewport_size({"width": width, "height": HEIGHT})
            if found := wrong_boxes(window.page):
                wrong[where, width] = found
    assert wrong == {}
    for page in pages.PAGES:
        route = Route(page.path, page.read)
        assert any(map(route.path_regex.match, seen)), f"{page.path} is left out"


def test_nothing_keeps_anybody_out(spoilt: Directory, window: Window) -> None:
    found = dict[tuple[str, int], list[str]]()
    for where in walk(window, spoilt):
        for width in (WIDTHS[0], WIDTHS[-1]):
            window.page.set_viewport_size({"width": width, "height": HEIGHT})
            if met := barriers(window.page):
                found[where, width] = met
    assert found == {}


def test_what_is_wrong_is_found(window: Window) -> None:
    window.page.set_content(WRONG)
    boxes = " ".join(wrong_boxes(window.page))
    for what in (
        'leaves its box: p "This leaves its place"',
        'cut: p "This is cut here"',
        'over "This lies above": p "This lies below"',
        'beyond the page: p "This is outside"',
    ):
        assert what in boxes
    people = " ".join(barriers(window.page))
    for what in ("light: serious color-contrast", "critical label", "html-has-lang"):
        assert what in people
