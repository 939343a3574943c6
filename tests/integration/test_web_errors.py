"""The error queue in the console: looked at, previewed, edited, retried, given up."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin

import pytest
from sqlalchemy.event import listen

import deferred
from deferred import Edit
from deferred.parked import rows_now
from deferred.parked.rows_now import Place
from masters import rules
from sites import Directory, QualifiedName
from snaptide.web.pages.edits import edits_of
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link_orders, parked, rows, run, scalar

HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }} \u202e\x07"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two orders, the same at both sites."""
    link_orders(sites, "(1, 'a', 10), (2, 'b', 20)")


@pytest.fixture
def browser(orders: Directory, tmp_path: Path) -> Browser:
    return Browser(console(orders, tmp_path))


def park(
    sites: Directory, number: int = 1, *, name: str = "mine", where: str = ""
) -> int:
    """A conflict in an order; the number of the parked transaction.

    Parameters:
        where: the orders, if they are several.
    """
    where = where or f"id = {number}"
    as_refresh(sites["hq"], f"UPDATE orders SET qty = 99 WHERE {where}")
    named = name.replace("'", "''")
    run(sites["jfk"], f"UPDATE orders SET qty = 15, name = '{named}' WHERE {where}")
    deferred.push(sites["jfk"])
    return int(max(error_id for error_id, *_ in parked(sites["hq"])))


def edited(number: int, page: str, **values: str) -> dict[str, str]:
    """The form of a transaction, with some values changed."""
    [call] = set(re.findall(r'name="value\.(\d+)\.qty"', page))
    form = {"id": str(number), "after": "0"}
    fields = re.findall(rf'name="value\.{call}\.(\w+)" value="([^"]*)"', page)
    return form | {f"value.{call}.{n}": values.get(n, v) for n, v in fields}


def test_nothing_parked(browser: Browser) -> None:
    assert "Nothing is parked" in browser.get("/errors")
    assert "Nothing is parked here" in browser.get("/sites/hq/errors")
    assert "no error transaction 7" in browser.get("/sites/hq/errors/7", 404)


def test_old_new_and_current_are_side_by_side(
    orders: Directory, browser: Browser
) -> None:
    number = park(orders)
    assert 'href="/sites/hq/errors?origin=jfk' in browser.get("/errors")
    assert f'href="/sites/hq/errors/{number}"' in browser.get("/sites/hq/errors")
    page = browser.get(f"/sites/hq/errors/{number}")
    for value in (">10<", 'value="15"', ">99<", "differs from old"):
        assert value in page
    assert f"snaptide errors show hq {number}" in page


def test_a_preview_shows_the_row_and_changes_nothing(
    orders: Directory, browser: Browser
) -> None:
    number = park(orders)
    page = f"/sites/hq/errors/{number}"
    before = rows(orders["hq"])
    refused = browser.send(f"{page}/preview", {"id": number}).text
    assert "A retry would not apply it" in refused
    form = edited(number, browser.get(page), qty="60")
    shown = browser.send(f"{page}/preview", form).text
    assert "A retry would apply it" in shown
    assert re.search(r'data-label="After a retry">\s*<bdi class="value">60<', shown)
    assert re.search(r'data-label="Now">\s*<bdi class="value">99<', shown)
    assert "qty=60" in shown
    assert rows(orders["hq"]) == before
    assert [one for one, *_ in parked(orders["hq"])] == [number]
    assert scalar(orders["hq"], "SELECT count(*) FROM snaptide.operator_action") == 0


def test_an_edited_retry_is_applied_and_noted(
    orders: Directory, browser: Browser
) -> None:
    number = park(orders)
    page = f"/sites/hq/errors/{number}"
    form = edited(number, browser.get(page), qty="60")
    after = browser.follow(browser.send(f"{page}/retry", form))
    assert "1 of 1 applied" in after
    assert (1, "mine", 60) in rows(orders["hq"])
    assert parked(orders["hq"]) == []
    [noted] = run(
        orders["hq"],
        "SELECT operator, role, command, outcome, ended_at IS NOT NULL"
        " FROM snaptide.operator_action",
    )
    assert noted[:2] == ("operator", "operator")
    assert f"errors retry hq {number} --edit" in noted[2]
    assert noted[3:] == ("1 of 1 applied.", True)
    assert f"errors retry hq {number} --edit" in browser.get("/actions")


def test_a_retry_that_is_refused_keeps_the_page_and_says_why(
    orders: Directory, browser: Browser
) -> None:
    number = park(orders)
    page = f"/sites/hq/errors/{number}"
    form = edited(number, browser.get(page), qty="many")
    answer = browser.send(f"{page}/retry", form)
    assert answer.status_code == 409
    assert "invalid input syntax" in answer.text
    assert 'value="many"' in answer.text
    assert [one for one, *_ in parked(orders["hq"])] == [number]


def test_null_is_no_empty_text(orders: Directory, browser: Browser) -> None:
    number = park(orders)
    page = f"/sites/hq/errors/{number}"
    form = edited(number, browser.get(page), qty="60")
    [call] = {name.split(".")[1] for name in form if name.startswith("value.")}
    form[f"null.{call}.name"] = "1"
    browser.follow(browser.send(f"{page}/retry", form))
    assert (1, None, 60) in rows(orders["hq"])


def test_giving_up_asks_for_the_number(orders: Directory, browser: Browser) -> None:
    first, second = park(orders), park(orders, 2)
    queue = "/sites/hq/errors"
    chosen = {"which": "chosen", "id": [first]}
    asked = browser.send(f"{queue}/give-up", chosen)
    assert "Type 1 to give them up" in asked.text
    wrong = browser.send(f"{queue}/give-up", {**chosen, "sure": "2"})
    assert "That is not their number" in wrong.text
    assert len(parked(orders["hq"])) == 2
    done = browser.follow(browser.send(f"{queue}/give-up", {**chosen, "sure": "1"}))
    assert "1 given up" in done
    assert [one for one, *_ in parked(orders["hq"])] == [second]


def test_all_that_match_are_those_that_the_page_knew(
    orders: Directory, browser: Browser
) -> None:
    first = park(orders)
    form = {"which": "matching", "origin": "jfk", "latest": first, "sure": "1"}
    second = park(orders, 2)
    browser.follow(browser.send("/sites/hq/errors/give-up", form))
    assert [one for one, *_ in parked(orders["hq"])] == [second]
    retried = {"which": "matching", "origin": "jfk", "latest": second}
    page = browser.follow(browser.send("/sites/hq/errors/retry", retried))
    assert "0 of 1 applied" in page


def test_all_that_match_a_reason_are_those_of_the_command(
    orders: Directory, browser: Browser, write_settings: WriteSettings
) -> None:
    """The command line is the filter, however many transactions match it."""
    hq, jfk = orders["hq"], orders["jfk"]
    more = "INSERT INTO orders SELECT g, 'n' || g, 10 FROM generate_series(3, 60) g"
    for site in orders.values():
        as_refresh(site, more)
    as_refresh(hq, "UPDATE orders SET qty = 99")
    for number in range(1, 61):
        run(jfk, f"UPDATE orders SET qty = 15 WHERE id = {number}")
    run(jfk, "UPDATE orders SET qty = 16 WHERE id = 60")
    deferred.push(jfk)
    as_refresh(hq, "UPDATE orders SET qty = 10 WHERE id > 2 AND id <= 12")
    wanted = "/sites/hq/errors?origin=jfk&reason=conflict"
    page = browser.get(wanted)
    assert "snaptide errors list hq --origin jfk --reason conflict" in page
    [latest] = re.findall(r'name="latest" value="(\d+)"', page)
    form = {"which": "matching", "reason": "conflict", "latest": latest}
    done = browser.follow(browser.send("/sites/hq/errors/retry", form))
    assert "10 of 60 applied" in done
    assert "The same: snaptide errors retry hq --reason conflict" in done
    assert scalar(hq, "SELECT count(*) FROM orders WHERE qty = 15") == 10
    snaptide = Snaptide(write_settings(orders))
    # The command that was shown finds what is left of the same.
    of_conflicts = ("--reason", "conflict")
    assert len(snaptide.report("errors", "retry", "hq", *of_conflicts, code=3)) == 50
    [other] = snaptide.report("errors", "list", "hq", "--reason", "dependant", code=3)
    assert other["reason"] == "dependant"
    asked = browser.send("/sites/hq/errors/give-up", form).text
    assert "Type 50 to give them up" in asked
    assert "snaptide errors delete hq --reason conflict" in asked
    gone = snaptide.report("errors", "delete", "hq", *of_conflicts, "--yes")
    assert gone["deleted"] == 50
    assert [reason for _, reason, *_ in parked(hq)] == ["dependant"]
    both = snaptide.said("errors", "retry", "hq", "1", *of_conflicts, code=2)
    assert "--reason" in both


def test_hostile_values_are_text(orders: Directory, browser: Browser) -> None:
    number = park(orders, name=HOSTILE)
    for page in ("/errors", "/sites/hq/errors", f"/sites/hq/errors/{number}"):
        text = browser.get(page)
        assert "<script>alert" not in text
        assert "&#39;x&#39; 49" not in text
        assert "\x07" not in text or page.endswith(str(number))
    assert "&lt;script&gt;" in browser.get(f"/sites/hq/errors/{number}")


def test_characters_that_turn_others_around_are_named(
    orders: Directory, browser: Browser
) -> None:
    number = park(orders, name="invoice\u202efdp.exe")
    page = browser.get(f"/sites/hq/errors/{number}", 200)
    page = browser.send(
        f"/sites/hq/errors/{number}/preview", edited(number, page, qty="60")
    ).text
    assert "invoice&lt;U+202E&gt;fdp.exe" in page


def test_a_preview_leads_to_calls_that_it_leaves_out(
    orders: Directory, browser: Browser
) -> None:
    more = "INSERT INTO orders SELECT g, 'n' || g, g FROM generate_series(3, 30) g"
    for site in orders.values():
        as_refresh(site, more)
    number = park(orders, where="true")
    page = f"/sites/hq/errors/{number}"
    shown = browser.send(f"{page}/preview", {"id": number}).text
    [link] = re.findall(r'<a href="([^"]*)">More calls', shown)
    assert "Call 21: update" in browser.get(urljoin(f"{page}/preview", link))


def test_long_values_are_cut_and_not_edited(
    orders: Directory, browser: Browser
) -> None:
    number = park(orders, name="x" * 9_000)
    page = browser.get(f"/sites/hq/errors/{number}")
    assert "(9,000 characters)" in page
    assert ".name" not in "".join(re.findall(r'name="value[^"]*"', page))
    assert len(page) < 80_000


def test_preview_verb(orders: Directory) -> None:
    number = park(orders)
    hq = orders["hq"]
    assert not deferred.preview_error(hq, number).applied
    found = deferred.preview_error(hq, number, [Edit.parse("orders.id=9")])
    assert found.applied
    assert [(row.before, row.after) for row in found.rows] == [
        ({"id": "1", "name": "a", "qty": "99"}, None),
        (None, {"id": "9", "name": "mine", "qty": "15"}),
    ]
    assert rows(hq) == [(1, "a", 99), (2, "b", 20)]
    assert deferred.retry_errors(hq, [number], edits=[Edit.parse("orders.id=9")])


def calls_of(page: str) -> list[str]:
    """The numbers of the calls that a page lets a user leave out."""
    return re.findall(r'name="skip" value="(\d+)"', page)


def test_a_call_is_left_out_of_preview_and_retry(
    orders: Directory, browser: Browser
) -> None:
    as_refresh(orders["hq"], "UPDATE orders SET qty = 99 WHERE id = 2")
    run(orders["jfk"], "UPDATE orders SET qty = 15")
    deferred.push(orders["jfk"])
    [(number, *_)] = parked(orders["hq"])
    page = f"/sites/hq/errors/{number}"
    _, second = calls_of(browser.get(page))
    form = {"id": number, "skip": second}
    shown = browser.send(f"{page}/preview", form).text
    assert "A retry would apply it, but for 1 call that stays parked" in shown
    assert f"snaptide errors retry hq {number} --skip {second}" in shown
    assert re.search(rf'name="skip" value="{second}" checked', shown)
    assert rows(orders["hq"]) == [(1, "a", 10), (2, "b", 99)]
    after = browser.follow(browser.send(f"{page}/retry", form))
    assert f"1 call was left out, and stays parked as {number}" in after
    assert rows(orders["hq"]) == [(1, "a", 15), (2, "b", 99)]
    left = browser.get(page)
    assert "Left out by an operator" in left
    # There is nothing beside it that could be applied.
    assert calls_of(left) == []
    refused = browser.send(f"{page}/retry", form)
    assert refused.status_code == 400
    assert "no other calls to apply" in refused.text


def test_the_row_of_now_is_beside_that_of_then(
    orders: Directory, browser: Browser
) -> None:
    number = park(orders)
    page = f"/sites/hq/errors/{number}"
    here = re.compile(r'data-label="Here now"><bdi class="value">(\w+)<')
    assert (before := here.findall(re.sub(r">\s+<", "><", browser.get(page))))
    assert "99" in before
    as_refresh(orders["hq"], "UPDATE orders SET qty = 77 WHERE id = 1")
    shown = browser.get(page)
    assert "77" in here.findall(re.sub(r">\s+<", "><", shown))
    assert "changed since" in shown
    # A preview that is refused shows it, too.
    refused = browser.send(f"{page}/preview", {"id": number}).text
    assert "A retry would not apply it" in refused
    assert "77" in here.findall(re.sub(r">\s+<", "><", refused))
    [call] = deferred.show_error(orders["hq"], number).calls
    assert [(image or {})["qty"] for image in (call.current, call.now)] == ["99", "77"]
    as_refresh(orders["hq"], "DELETE FROM orders WHERE id = 1")
    assert deferred.show_error(orders["hq"], number).calls[0].now is None
    run(orders["hq"], "DROP TABLE orders CASCADE")
    assert deferred.show_error(orders["hq"], number).calls[0].now is None


def test_rows_of_now_are_read_with_one_statement_a_table(orders: Directory) -> None:
    as_refresh(orders["hq"], "INSERT INTO orders VALUES (3, 'c', 30)")
    name = QualifiedName("public", "orders")
    places = [Place(name, ("id",), (str(n),), ("id", "qty")) for n in range(1, 6)]
    said: list[str] = []
    with orders["hq"].transaction() as connection:
        listen(connection, "before_cursor_execute", lambda *a: said.append(a[2]))
        found = rows_now.read(connection, places)
    assert [found[one]["qty"] for one in places if one in found] == ["10", "20", "30"]
    assert sum("unnest" in one and "orders" in one for one in said) == 1


def test_edits_are_found_without_the_rows_of_now(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = park(orders)
    call = deferred.show_error(orders["hq"], number).calls[0].call_no

    def not_asked(*_: object) -> None:
        raise AssertionError("the master's rows were read")

    monkeypatch.setattr(rows_now, "read", not_asked)
    form = {f"value.{call}.qty": "16", f"value.{call}.name": "mine"}
    assert edits_of(orders["hq"], number, form) == [
        Edit(call=call, column="qty", value="16")
    ]


def test_those_that_wait_stand_below_in_their_order(
    orders: Directory, browser: Browser
) -> None:
    """A child below its parent, a grandchild below it, and the next at the top."""
    first = park(orders)
    others = [
        "UPDATE orders SET qty = 16 WHERE id = 1",
        "UPDATE orders SET qty = 17 WHERE id = 1",
    ]
    second = park(orders, 2)
    for statement in others:
        run(orders["jfk"], statement)
        deferred.push(orders["jfk"])
    _, _, child, grandchild = (number for number, *_ in parked(orders["hq"]))
    page = browser.get("/sites/hq/errors")
    shown = re.findall(r'class="depth-(\d)">.*?/errors/(\d+)"', page, re.DOTALL)
    assert [(int(depth), int(number)) for depth, number in shown] == [
        (0, first),
        (1, child),
        (2, grandchild),
        (0, second),
    ]


def test_the_page_names_the_rule_that_was_tried(
    orders: Directory, browser: Browser
) -> None:
    hq = orders["hq"]
    rules.set_column_group(hq, "orders", "amount", ["qty"])
    rules.add_update_resolution(
        hq,
        "orders",
        "amount",
        "priority_group",
        parameters={"column": "qty", "priorities": {"7": 1}},
    )
    page = browser.get(f"/sites/hq/errors/{park(orders)}")
    assert re.search(
        r"update conflict[^<]*priority_group: qty: [^<]* has no priority", page
    )
