"""The console in a real browser: what people find there, decide, and may not do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import deferred
from masters.analysis import records
from sites import Directory
from snaptide import scheduled
from snaptide.application import celery_app
from snaptide.settings import Settings
from snaptide.web.console import Console
from tests.console import PASSWORD, console
from tests.fix_browser import OpenWindow, TakePicture
from tests.fix_worker import WriteSettings
from tests.grouped import without
from tests.integration import test_web_repair
from tests.linked_table import parked, rows, run
from tests.looks import barriers, wrong_boxes
from tests.window import Window

#: Sites whose rows have come apart.
apart = test_web_repair.apart

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


@pytest.fixture
def made(planted: Directory, tmp_path: Path) -> Console:
    return console(planted, tmp_path)


@pytest.fixture
def window(made: Console, open_window: OpenWindow) -> Window:
    """A window in which an operator is logged in."""
    opened = open_window(made)
    opened.log_in()
    return opened


def assert_looks_well(window: Window) -> None:
    """Nothing is cut and nobody is kept out, at a desk and on a phone."""
    for width in (360, 1280):
        window.page.set_viewport_size({"width": width, "height": 800})
        assert wrong_boxes(window.page) == []
        assert barriers(window.page) == []


def test_logging_in_by_the_keyboard_alone(
    made: Console, open_window: OpenWindow
) -> None:
    window = open_window(made)
    keys = window.page.keyboard
    window.open("/errors")
    window.see("h1", "Log in")
    for password in ("guessed", PASSWORD):
        window.page.locator("#name:focus").wait_for()
        keys.type("operator")
        keys.press("Tab")
        keys.type(password)
        keys.press("Enter")
        if password == "guessed":
            window.see(".problem", "The name or the password is wrong.")
    window.see("h1", "Overview")
    window.page.wait_for_load_state()
    keys.press("Tab")
    assert window.focused == "Skip to the content"
    keys.press("Enter")
    keys.press("Tab")
    assert window.focused == "2"
    keys.press("Enter")
    window.see("h1", "Error queues")


def test_a_conflict_is_solved_from_the_overview(
    planted: Directory, window: Window, take_picture: TakePicture
) -> None:
    take_picture(window, "overview")
    window.click("link", "2", among=window.page.locator(".figures"))
    window.click("link", "2", among=window.row("hq"))
    window.click("link", "1")
    window.see("td", "differs from old")
    window.page.get_by_label("New value of qty").fill("104")
    window.click("button", "Preview")
    window.see("p", "A retry would apply it.")
    assert "snaptide errors retry hq 1 --edit 1.qty=104" in window.text
    assert window.page.get_by_label("New value of qty").input_value() == "104"
    take_picture(window, "parked")
    window.click("button", "Retry")
    window.see(".notice", "1 of 1 applied.")
    assert window.clicks < 10
    assert (1, "tulips", 104, None) in rows(planted["hq"])
    assert len(parked(planted["hq"])) == 1
    window.click("link", "Actions", among=window.page.locator("header"))
    window.see("td", "snaptide errors retry hq 1 --edit 1.qty=104")


def test_giving_up_on_a_phone_needs_the_number(
    planted: Directory,
    made: Console,
    open_window: OpenWindow,
    take_picture: TakePicture,
) -> None:
    window = open_window(made, **PHONE)
    window.log_in()
    window.click("link", "2", among=window.row("hq"))
    window.click("radio", "all 2 that match")
    window.click("button", "Give up ...")
    window.see("h1", "Give up 2 transactions at hq?")
    take_picture(window, "give-up")
    for number in ("1", "2"):
        assert len(parked(planted["hq"])) == 2
        window.page.get_by_label("Type 2 to give them up").fill(number)
        window.click("button", "Give up")
        if number == "1":
            window.see(".problem", "That is not their number.")
    window.see(".notice", "2 given up.")
    window.see("p", "Nothing is parked here")
    assert parked(planted["hq"]) == []


def test_what_is_refused_is_told_and_nothing_typed_is_lost(window: Window) -> None:
    window.open("/sites/hq/errors/2")
    window.page.get_by_label("New value of qty").fill("a dozen")
    window.page.get_by_label("New value of note").fill("two\nlines")
    window.click("button", "Retry")
    window.see(".problem", "It was not applied, and is as it was.")
    assert window.page.get_by_label("New value of qty").input_value() == "a dozen"
    window.open("/sites/hq/errors/999")
    window.see("h1", "Not found")


def test_a_viewer_sees_everything_and_no_action(
    made: Console, open_window: OpenWindow
) -> None:
    window = open_window(made)
    window.log_in("viewer")
    for path, text in (
        ("/sites/hq/errors", "update conflict"),
        ("/sites/hq/errors/1", "99"),
        ("/sites/jfk/schedules", "record_days=7"),
        ("/sites/hq/replication-group?name=sales", "full_peer"),
        ("/sites/jfk/groups/airport", "codes"),
    ):
        window.open(path)
        assert text in window.text
        assert window.page.locator('main form[method="post"] button').count() == 0
        assert window.page.locator("main [formaction]").count() == 0
        assert window.page.locator('main input[type="checkbox"]').count() == 0


def test_a_site_that_is_away(
    planted: Directory,
    tmp_path: Path,
    open_window: OpenWindow,
    take_picture: TakePicture,
) -> None:
    with without(planted, "lax") as left:
        window = open_window(console(left, tmp_path))
        window.log_in()
        assert "2 of 3" in window.text
        assert "away" in window.row("lax").inner_text()
        assert "up" in window.row("hq").inner_text()
        take_picture(window, "away")
        window.click("link", "lax")
        window.see("h1", "The site does not answer")
        window.click("link", "To the overview")
        window.click("link", "hq")
        window.click("link", "Groups of masters")
        window.click("link", "sales")
        assert "cannot be reached" in window.row("lax").inner_text()
        window.open("/history?table=orders&key=2")
        window.see(".problem", "lax")
        window.see("td", "settled by discard")


def test_schedules_are_paused_and_run(
    planted: Directory,
    tmp_path: Path,
    broker: str,
    write_settings: WriteSettings,
    open_window: OpenWindow,
    take_picture: TakePicture,
) -> None:
    app = celery_app(Settings.load(write_settings(planted, broker)))
    ask = partial(scheduled.run_now, app)
    window = open_window(console(planted, tmp_path, run_schedule=ask))
    window.log_in()
    window.click("link", "jfk")
    window.click("link", "Schedules")
    take_picture(window, "schedules")
    window.click("button", "Disable purge *")
    window.see(".notice", "It is paused.")
    assert "disabled" in window.row("purge *").inner_text()
    window.click("button", "Enable purge *")
    window.see(".notice", "It runs again.")
    window.click("button", "Run refresh airport now")
    window.see(".notice", "Given to the workers as task")


def test_from_a_conflict_to_the_history_of_its_row(
    planted: Directory, window: Window, take_picture: TakePicture
) -> None:
    window.click("link", "hq")
    window.click("link", "Conflicts")
    window.page.get_by_label("Method").select_option("discard")
    window.click("button", "Show")
    window.see("p", "1 conflict that match")
    [settled] = records.list_resolutions(planted["hq"])
    window.click("link", str(settled.id))
    assert window.row("name").inner_text().split("\t")[1:] == [
        "roses",
        "white roses",
        "red roses",
        "red roses",
    ]
    window.see("pre", 'method = "discard"')
    take_picture(window, "conflict")
    window.click("link", "History")
    assert "red roses" in window.row("hq").first.inner_text()
    take_picture(window, "history")
    window.page.get_by_role("link", name="settled by discard").click()
    window.see("h1", f"Conflict {settled.id} at hq")


def test_a_row_is_looked_up_by_its_key(window: Window) -> None:
    window.click("link", "History", among=window.page.locator("header"))
    window.page.get_by_label("Table of the master").fill("orders")
    window.page.get_by_label("Key").fill("1")
    window.click("button", "Show")
    window.see("td", "parked")
    window.page.get_by_role("link", name="parked").first.click()
    window.see("h1", "Parked transaction 1 of hq")


def test_rules_and_the_masters_of_a_group(
    window: Window, take_picture: TakePicture
) -> None:
    window.click("link", "hq")
    window.click("link", "Rules")
    window.see("pre", "[tables.orders]")
    window.page.go_back()
    window.click("link", "Groups of masters")
    window.click("link", "sales")
    assert "lax (1 call waits)" in window.row("hq").inner_text()
    window.see("pre", "hq\n└─> lax")
    take_picture(window, "masters")
    window.click("link", "lax")
    window.see("h1", "Site lax")


def test_checks_lead_to_the_rows_that_differ(
    window: Window, take_picture: TakePicture
) -> None:
    window.click("link", "jfk")
    window.click("link", "Checks")
    window.click("link", "1")
    window.see(".problem", "1 row differs without a reason.")
    take_picture(window, "check")
    window.page.get_by_role("link", name="public.orders").first.click()
    assert "name: daffodils" in window.row("id: 1").inner_text()
    window.click("link", "Rows of all snapshots")
    window.see("h2", "Rows that differ")


@pytest.mark.usefixtures("spark")
def test_rows_that_have_come_apart_are_mended(
    apart: Directory,
    tmp_path: Path,
    open_window: OpenWindow,
    take_picture: TakePicture,
) -> None:
    window = open_window(console(apart, tmp_path))
    window.log_in()
    window.click("link", "jfk")
    window.click("link", "Checks")
    window.click("link", "1")
    window.click("link", "Plan a repair")
    window.click("button", "Plan")
    window.see(".notice", "3 rows would be mended.")
    assert "name: daffodils" in window.row("id: 1").inner_text()
    take_picture(window, "repair")
    assert_looks_well(window)
    window.page.get_by_label("Type 3 to mend them").fill("3")
    window.click("button", "Mend")
    window.see(".notice", "3 rows mended.")
    assert_looks_well(window)
    assert window.clicks < 10
    assert rows(apart["jfk"], "orders") == rows(apart["hq"], "orders")
    window.click("link", "Actions", among=window.page.locator("header"))
    window.see("td", "snaptide rectify jfk 1")


def test_doctor_says_what_to_do(
    planted: Directory, window: Window, take_picture: TakePicture
) -> None:
    run(planted["hq"], "ALTER TABLE public.orders DISABLE TRIGGER ALL")
    window.click("link", "hq")
    window.click("link", "Doctor")
    window.click("link", "Examine now")
    window.see("code", " TRIGGER ")
    take_picture(window, "doctor")


def test_everything_is_read_and_decided_without_javascript(
    planted: Directory, made: Console, open_window: OpenWindow
) -> None:
    window = open_window(made, java_script_enabled=False)
    window.log_in()
    window.click("link", "2", among=window.page.locator(".figures"))
    window.click("link", "2", among=window.row("hq"))
    window.page.get_by_label("Reason").select_option("conflict")
    window.click("button", "Show")
    window.click("checkbox", "Choose 2")
    window.click("button", "Retry")
    window.see(".notice", "0 of 1 applied. The first that is not:")
    window.click("link", "2")
    window.page.get_by_label("New value of qty").fill("40")
    window.click("button", "Preview")
    window.see("p", "A retry would apply it.")
    window.click("button", "Retry")
    window.see(".notice", "1 of 1 applied.")
    assert (3, "asters", 40, "for Friday") in rows(planted["hq"])


def test_the_overview_renews_itself(planted: Directory, window: Window) -> None:
    window.page.clock.install()
    window.open("/")
    link = window.row("hq").get_by_role("link", name="2", exact=True)
    link.focus()
    deferred.delete_errors(planted["hq"], [2])
    window.page.clock.run_for(10_000)
    window.row("hq").get_by_role("link", name="1", exact=True).wait_for()
    assert window.focused == "1"
    assert window.row("jfk").count() == 1


def test_a_session_ends_with_the_logout(window: Window) -> None:
    window.open("/sites/hq/errors/1")
    window.click("button", "Log out", among=window.page.locator("header"))
    window.see("h1", "Log in")
    window.page.go_back()
    window.see("h1", "Log in")
    assert "tulips" not in window.page.content()


def test_a_session_that_ends_leads_to_the_login(window: Window) -> None:
    window.page.clock.install()
    window.open("/")
    window.page.context.clear_cookies()
    window.page.clock.run_for(10_000)
    window.see("h1", "Log in")
    window.log_in()
    window.open("/sites/hq/errors/1")
    window.page.context.clear_cookies()
    window.click("button", "Retry")
    window.see("h1", "Log in")


def test_the_overview_on_a_phone_at_night(
    made: Console, open_window: OpenWindow, take_picture: TakePicture
) -> None:
    window = open_window(made, **PHONE, color_scheme="dark")
    window.log_in()
    take_picture(window, "phone")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert window.page.evaluate(colour) == "rgb(20, 24, 29)"
