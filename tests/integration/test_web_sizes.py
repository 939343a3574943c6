"""No page of the console is larger than 80 kB, whatever a database holds."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import deferred
import groups
from groups import group as known_groups
from groups.relay.holds import QuietGroup
from groups.show import show_master
from sites import Directory
from sites.errors import SiteUnreachable
from snaptide.status import SiteStatus, status_of
from snaptide.web.console import Console
from snaptide.web.pages import group as group_page
from snaptide.web.questions import Answer, Questions
from snaptide.web.rendering import within
from tests.console import Browser, console
from tests.linked_table import as_refresh, link, link_orders, run
from tests.sent import sent

#: The largest page, in bytes.
MOST = 80_000
#: 800 characters, each of which is escaped.
LONG = "repeat('\"<', 400)"
ACTIONS = f"""
INSERT INTO snaptide.operator_action (operator, role, command, outcome)
SELECT 'o', 'operator', n || ' ' || {LONG}, {LONG} FROM generate_series(1, 10000) n
"""
GROUPS = f"""
INSERT INTO snaptide.refresh_group (name, master, master_id, refreshed_at, last_error)
SELECT to_char(n, 'FM00000') || {LONG}, 'hq', gen_random_uuid(),
  now() - interval '1 second' * n, CASE n WHEN 7 THEN {LONG} END
FROM generate_series(1, {{count}}) n
"""
PARKED = f"""
INSERT INTO snaptide.error_transaction (origin_id, origin, origin_transaction,
  origin_user, reason, error_code, error_message, batch_no, order_no)
SELECT gen_random_uuid(), 's' || n % 500, n::text, {LONG}, 'error', 'X', {LONG}, 1, n
FROM generate_series(1, 10000) n
"""
#: All wait for the first, and the last waits for all.
WAITING = f"""
INSERT INTO snaptide.error_transaction (id, origin_id, origin, origin_transaction,
  origin_user, reason, error_code, error_message, batch_no, order_no, waits_for)
SELECT n, gen.id, 'jfk', n::text, 'u', 'conflict', 'X', {LONG}, 1, n,
  CASE n WHEN 1 THEN '{{{{}}}}' WHEN {{last}} THEN every.one ELSE '{{{{1}}}}' END
FROM generate_series(1, {{last}}) n, (SELECT gen_random_uuid() AS id) gen,
  (SELECT array_agg(m) AS one FROM generate_series(1, {{last}} - 1) m) every
"""
CALLS = """
INSERT INTO snaptide.error_call (error_id, call_no, target_schema, target_table, kind,
  identity_columns, new_values)
SELECT 1, n, 'public', 'orders', 'I', '{{id}}',
  json_build_object('id', n::text, 'note', {note}) FROM generate_series(1, 10000) n
"""
PROCEDURES = f"""
INSERT INTO snaptide.error_procedure (error_id, call_no, name, arguments, error,
  ran_here)
SELECT 1, n, 'p' || n, CASE WHEN n IN (15, 9500) THEN a.every ELSE '[]' END, {LONG},
  false
FROM generate_series(1, 10000) n, (
  SELECT jsonb_agg(jsonb_build_object('type', 'text', 'value', {LONG})) AS every
  FROM generate_series(1, 100)) a
"""


def small(page: str) -> str:
    """A page, once it is seen to be small enough."""
    assert len(page.encode()) < MOST
    return page


@pytest.fixture
def browser(sites: Directory, tmp_path: Path) -> Browser:
    return Browser(console(sites, tmp_path))


def test_ten_thousand_refresh_groups_on_the_overview(
    sites: Directory, browser: Browser
) -> None:
    run(sites["jfk"], GROUPS.format(count=10_000))
    page = small(browser.get("/"))
    named = re.findall(r'id="jfk/(\d{5})', page)
    assert named == ["00007", "10000", "09999"]
    assert "and 9,997 more" in page


def test_two_hundred_sites_are_on_the_overview_at_once(
    sites: Directory, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_alike(_: Console, **_polled: bool) -> dict[str, Answer[SiteStatus]]:
        found = status_of(sites["hq"], alone=True)
        names = [f"site{n:03}" for n in range(200)]
        return {name: Answer(value=replace(found, site=name)) for name in names}

    def named(page: str) -> set[str]:
        return {*re.findall(r'href="/sites/(site\d+)"', page)}

    monkeypatch.setattr(Console, "states", all_alike)
    run(
        sites["hq"],
        "INSERT INTO snaptide.refresh_group (name, master, master_id)"
        " SELECT 'g' || n, 'hq', gen_random_uuid() FROM generate_series(1, 2) n",
    )
    assert len(named(small(browser.get("/")))) == 200
    run(sites["hq"], GROUPS.format(count=10))
    first = small(browser.get("/"))
    assert "200 of 200" in first
    [rest] = re.findall(r'href="\?(from=\d+)"', first)
    page = small(browser.get(f"/?{rest}"))
    assert f'hx-get="/?{rest}"' in page
    assert named(first)
    assert named(first).isdisjoint(named(page))


def test_ten_thousand_actions(sites: Directory, browser: Browser) -> None:
    run(sites["hq"], ACTIONS)
    run(sites["jfk"], ACTIONS.replace("10000", "10"))
    page = small(browser.get("/actions"))
    assert "10,010 actions, the latest first." in page
    shown = page.count("(operator)</td>")
    [(address, older)] = re.findall(r'href="([^"]*)">([\d,]+) older ones', page)
    assert older == f"{10_010 - shown:,}"
    next_ = small(browser.get(f"/actions{unescape(address)}"))
    assert "10,010 actions" in next_
    more = next_.count("(operator)</td>")
    assert f"{10_010 - shown - more:,} older ones" in next_
    assert "SNP-434" in browser.get("/actions?before=-1", 404)


def test_ten_thousand_parked_transactions_of_five_hundred_sites(
    sites: Directory, browser: Browser
) -> None:
    run(sites["hq"], PARKED)
    queues = small(browser.get("/errors"))
    assert "1 to 50 of 500" in queues
    assert "51 to 100 of 500" in small(browser.get("/errors?from=50"))
    page = small(browser.get("/sites/hq/errors"))
    assert page.count('name="id"') == 50
    assert "Page 1 of 200" in page
    assert "selected>s499</option>" in small(
        browser.get("/sites/hq/errors?origin=s499")
    )


def wide(sites: Directory) -> int:
    """Park an update of one column of a row that has three hundred."""
    columns = ", ".join(f"c{n} text" for n in range(300))
    link(sites, "wide", f"id int PRIMARY KEY, {columns}, last text")
    values = ", ".join([LONG] * 300)
    for site in sites.values():
        as_refresh(site, f"INSERT INTO wide VALUES (1, {values}, 'a')")
    as_refresh(sites["hq"], "UPDATE wide SET last = 'theirs'")
    run(sites["jfk"], "UPDATE wide SET last = 'ours'")
    deferred.push(sites["jfk"])
    [one] = deferred.list_errors(sites["hq"])
    return one.id


def test_a_row_of_many_columns(sites: Directory, browser: Browser) -> None:
    number = wide(sites)
    page = f"/sites/hq/errors/{number}"
    told = small(browser.get(page))
    # What differs comes first, however far to the right it stands in the table.
    [first, *others] = re.findall(r'<th scope="row"><bdi>(\w+)</bdi>', told)
    assert first == "last"
    assert f"{301 - len(others)} more columns are not shown" in told
    [call] = {*re.findall(r'name="value\.(\d+)\.last"', told)}
    form = {"id": str(number), "after": "0", f"value.{call}.last": "both"}
    preview = small(browser.send(f"{page}/preview", form).text)
    assert "A retry would apply it" in preview


def test_the_preview_of_a_row_of_many_columns(
    sites: Directory, browser: Browser
) -> None:
    number = wide(sites)
    as_refresh(sites["hq"], "UPDATE wide SET last = 'a'")
    page = f"/sites/hq/errors/{number}"
    preview = small(browser.send(f"{page}/preview", {"id": number, "after": 0}).text)
    assert "A retry would apply it" in preview
    table = preview[preview.index("<caption>") : preview.index("</table>")]
    [first, *_] = re.findall(r'<th scope="row"><bdi>(\w+)</bdi>', table)
    assert first == "last"
    assert len(re.findall("more columns are not shown", preview)) == 2


def test_many_calls_of_long_values_are_shown_in_parts(
    sites: Directory, browser: Browser
) -> None:
    link_orders(sites, "(1, 'a', 10)")
    as_refresh(sites["hq"], "UPDATE orders SET qty = 99")
    inserts = (
        f"INSERT INTO orders VALUES ({n}, repeat('\"<', 3500), 1)" for n in range(2, 12)
    )
    run(sites["jfk"], "UPDATE orders SET qty = 15", *inserts)
    deferred.push(sites["jfk"])
    [one] = deferred.list_errors(sites["hq"])
    address, seen = f"/sites/hq/errors/{one.id}", list[str]()
    page: str | None = address
    while page:
        told = small(browser.get(page))
        seen += re.findall(r"<h2>Call (\d+):", told)
        more = re.findall(rf'href="({address}\?after=\d+)"', told)
        page = unescape(more[0]) if more else None
    calls = deferred.show_error(sites["hq"], one.id).calls
    assert seen == [str(call.call_no) for call in calls]
    assert len(seen) == 11


def test_ten_thousand_calls_and_as_many_that_wait(
    sites: Directory, browser: Browser
) -> None:
    hq = sites["hq"]
    link(sites, "orders", "id int PRIMARY KEY, note text")
    run(hq, WAITING.format(last=10_002), CALLS.format(note=LONG))
    with sent(hq) as said:
        page = small(browser.get("/sites/hq/errors/1"))
    assert "<dd>10,000</dd>" in page
    assert "and 9,951 more" in page
    assert "More calls" in page
    calls = [one for one in said if "error_call" in one and "count(" not in one]
    assert len(calls) == 1
    assert "LIMIT" in calls[0]
    last = small(browser.get("/sites/hq/errors/10002"))
    assert "and 9,951 more" in last


def test_the_preview_of_ten_thousand_calls(sites: Directory, browser: Browser) -> None:
    hq = sites["hq"]
    link(sites, "orders", "id int PRIMARY KEY, note text")
    run(hq, WAITING.format(last=2), CALLS.format(note=LONG))
    form = {"id": 1, "after": 0}
    page = small(browser.send("/sites/hq/errors/1/preview", form).text)
    assert "A retry would apply it" in page
    shown = page.count("<caption>Call ")
    assert f"{100 - shown} more rows of its first 100 calls are not shown." in page


def test_ten_thousand_procedures_between_ten_thousand_calls(
    sites: Directory, browser: Browser
) -> None:
    hq = sites["hq"]
    link(sites, "orders", "id int PRIMARY KEY, note text")
    run(
        hq,
        WAITING.format(last=2),
        CALLS.format(note="'short'"),
        PROCEDURES,
        "DELETE FROM snaptide.error_procedure WHERE call_no % 3 > 0 AND call_no < 9000",
        "DELETE FROM snaptide.error_call c USING snaptide.error_procedure p"
        " WHERE c.call_no = p.call_no",
    )
    with sent(hq) as said:
        found = deferred.show_error(hq, 1, limit=10)
    called = [one for one in said if "error_procedure" in one and "count(" not in one]
    assert ["LIMIT" in one for one in called] == [True]
    assert [one.call_no for one in found.procedures] == [3, 6, 9]
    assert (len(found.calls), found.next_after) == (7, 10)
    after = 0
    for _ in range(5):
        page = small(browser.get(f"/sites/hq/errors/1?after={after}"))
        assert f'name="after" value="{after}"' in page
        seen = sorted(map(int, re.findall(r"<h2>Call (\d+):", page)))
        [last] = re.findall(r"/errors/1\?after=(\d+)", page)
        assert seen == [*range(after + 1, int(last) + 1)]
        after = int(last)
    # There, a transaction calls nothing but procedures.
    page = small(browser.get("/sites/hq/errors/1?after=9499"))
    assert "Call 9500: procedure <bdi>p9500</bdi>" in page
    assert "more arguments are not shown" in page
    assert 'name="after" value="9499"' in page


def test_giving_up_what_five_thousand_sites_have_sent(
    sites: Directory, browser: Browser
) -> None:
    run(sites["hq"], PARKED.replace("n % 500", "n % 5000"))
    form = {"which": "matching", "latest": 10_000}
    asked = small(browser.send("/sites/hq/errors/give-up", form).text)
    assert "Type 10000 to give them up" in asked
    shown = asked.count("<li>2 of s")
    assert f"{5_000 - shown:,} more sites are not shown." in asked


def test_giving_up_what_ten_thousand_wait_for(
    sites: Directory, browser: Browser
) -> None:
    run(sites["hq"], WAITING.format(last=10_002))
    chosen = {"which": "chosen", "id": [1, 2]}
    asked = small(browser.send("/sites/hq/errors/give-up", chosen).text)
    assert "<li>2 of jfk</li>" in asked
    assert "10,000 more wait for them" in asked


def test_ten_thousand_groups_of_masters(
    sites: Directory, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, find = list[str](), known_groups.find

    def noted(connection: Any, name: str) -> Any:
        read.append(name)
        return find(connection, name)

    monkeypatch.setattr(known_groups, "find", noted)
    run(
        sites["hq"],
        "INSERT INTO snaptide.replication_group (name, id, definition_site, version)"
        f" SELECT to_char(n, 'FM00000') || {LONG}, gen_random_uuid(), 'hq', 1"
        " FROM generate_series(1, 10000) n",
    )
    page, seen = "/sites/hq/replication-groups", list[str]()
    for start in ("", "?from=9990"):
        told = small(browser.get(f"{page}{start}"))
        seen = re.findall(r"<bdi>(\d{5})", told)
        first = int(start[6:] or 0) + 1
        assert seen == [f"{n:05}" for n in range(first, first + len(seen))]
        assert f"{first:,} to {first + len(seen) - 1:,} of 10,000" in told
    assert seen[-1] == "10000"
    assert len(read) == 60


def test_a_group_that_ten_thousand_masters_hold_back(
    sites: Directory, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq = sites["hq"]
    groups.create_group(hq, "g")
    [group] = groups.list_groups(hq)
    now = datetime.now(UTC)
    quiet = QuietGroup(group_id=group.id, by="o", since=now, why='"<' * 400)
    one = replace(show_master(hq, group, "hq"), quiet=quiet)
    many = [replace(one, master=f"m{n}") for n in range(10_000)]
    monkeypatch.setattr(group_page, "_masters", lambda _visit, _group: many)
    page = small(browser.get("/sites/hq/replication-group?name=g"))
    shown = page.count("The group has been quiet since")
    assert f"{10_000 - shown:,} more masters that hold the group back" in page


def test_ten_thousand_sites_that_are_away(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_answers(*_: object) -> dict[str, Answer[Any]]:
        names = [f"site{n}" for n in range(10_000)]
        error = SiteUnreachable('"<' * 400)
        return {name: Answer(error=error) for name in names}

    monkeypatch.setattr(Questions, "ask_all", none_answers)
    for path in ("/errors", "/work", "/actions", "/history?table=orders&key=1"):
        page = small(browser.get(path))
        shown = page.count("<strong>site")
        assert f"{10_000 - shown:,} more sites cannot answer, either." in page


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "abc..."), ('a"b', 6, 'a"...'), ("é", 1, "...")],
)
def test_a_text_is_cut_by_what_it_takes(text: str, room: int, shown: str) -> None:
    assert within(text, room) == shown
