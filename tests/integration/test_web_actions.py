"""The log of actions: of all sites, part by part, in the console and in a terminal."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from sites import Directory
from snaptide.cli.failures import ExitCode
from snaptide.errors import BadArgument
from snaptide.web.action_log import Part, Place, actions_of, together
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.linked_table import run

#: Seven at each site; the four in the middle are of one moment.
ACTIONS = """
INSERT INTO snaptide.operator_action (begun_at, operator, role, command, outcome)
SELECT '2026-01-01 00:00:00Z'::timestamptz
    + interval '1 microsecond' * CASE WHEN n BETWEEN 2 AND 5 THEN 3 ELSE n END,
  'anna', 'operator', current_database() || n, 'done' FROM generate_series(1, 7) n
"""


@pytest.fixture
def noted(sites: Directory) -> Directory:
    for site in sites.values():
        run(site, ACTIONS)
    return sites


def part(sites: Directory, most: int, before: Place | None) -> Part:
    found = (actions_of(site, most, before) for site in sites.values())
    return together(found, most)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 14, 20])
def test_parts_have_each_action_once(noted: Directory, most: int) -> None:
    seen: list[tuple[str, int]] = []
    before: Place | None = None
    while True:
        found = part(noted, most, before)
        seen += [(one.site, one.id) for one in found.actions]
        assert found.count == 14
        assert found.older == 14 - len(seen)
        if found.last is None:
            break
        before = Place.of(str(found.last))
        assert before == found.last
    assert len(seen) == len({*seen}) == 14
    everything = part(noted, 20, None)
    assert seen == [(one.site, one.id) for one in everything.actions]


@pytest.mark.parametrize(
    "text",
    ["", "1", "x/hq/1", "2026-01-01/hq", "2026-01-01/hq/x", f"2026-01-01/hq/{2**63}"],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadArgument):
        Place.of(text)


def test_a_moment_is_a_place(noted: Directory) -> None:
    found = part(noted, 20, Place.of("2026-01-01T00:00:00.000003Z"))
    assert [one.site for one in found.actions] == ["hq", "jfk"]
    assert found.count == 14


def test_the_page_says_the_command_that_lists_the_same(
    noted: Directory,
    tmp_path: Path,
    write_settings: WriteSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("snaptide.web.pages.action_log.AT_ONCE", 5)
    browser, snaptide = (
        Browser(console(noted, tmp_path)),
        Snaptide(write_settings(noted)),
    )
    address, seen = "/actions", 0
    while address:
        page = unescape(browser.get(address))
        assert "14 actions, the latest first." in page
        [words] = re.findall(r"<code>snaptide (user actions.*)</code>", page)
        listed = snaptide.report(*words.split(), "--limit", "5")
        commands = re.findall(r"<td><code>([^<]+)</code>", page)
        assert [one["command"] for one in listed["actions"]] == commands
        seen += len(commands)
        more = re.findall(r'href="([^"]*)">([\d,]+) older ones', page)
        assert [int(older) for _, older in more] == [14 - seen] * bool(14 - seen)
        address = f"/actions{more[0][0]}" if more else ""
    assert seen == 14


def test_the_command_says_who_is_away_and_where_to_go_on(
    noted: Directory, write_settings: WriteSettings
) -> None:
    gone = noted["hq"].url.set(port=1, host="127.0.0.1")
    with Directory({"jfk": noted["jfk"].url, "gone": gone}) as some:
        snaptide = Snaptide(write_settings(some))
        answer = snaptide("user", "actions", "--limit", "3")
        assert answer.exit_code == ExitCode.UNREACHABLE
        assert "gone: " in answer.stderr
        assert (
            "4 older ones: snaptide user actions --before 2026-01-01" in answer.stdout
        )
        said = snaptide.said("user", "actions", "jfk")
        assert said.count("anna") == 7
        snaptide.said("user", "actions", "--before", "soon", code=ExitCode.USAGE)


def test_a_site_that_is_away_takes_no_part(noted: Directory, tmp_path: Path) -> None:
    gone = noted["hq"].url.set(port=1, host="127.0.0.1")
    with Directory({"jfk": noted["jfk"].url, "gone": gone}) as some:
        page = Browser(console(some, tmp_path)).get("/actions")
    assert "7 actions, the latest first." in page
    assert "cannot be reached" in page
