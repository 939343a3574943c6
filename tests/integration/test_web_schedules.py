"""Schedules in the console: when they run, what went wrong, and run, pause, go on."""

from __future__ import annotations

import json
import re
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from deferred import schedules
from sites import Directory
from snaptide import scheduled
from snaptide.application import celery_app
from snaptide.cli.program import Program
from snaptide.cli.web import made_console
from snaptide.settings import Settings
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings, waiting_tasks
from tests.linked_table import run, run_each

HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }} &"
PAGE = "/sites/jfk/schedules"


@pytest.fixture
def browser(sites: Directory, tmp_path: Path) -> Browser:
    return Browser(console(sites, tmp_path))


@pytest.fixture
def with_broker(
    sites: Directory, tmp_path: Path, broker: str, write_settings: WriteSettings
) -> Browser:
    """A browser of a console that can ask workers."""
    app = celery_app(Settings.load(write_settings(sites, broker)))
    ask = partial(scheduled.run_now, app)
    return Browser(console(sites, tmp_path, run_schedule=ask))


def queued(broker: str) -> list[Any]:
    """Site and subject, and options, of what workers of jfk will find."""
    with Redis.from_url(broker) as client:
        found = waiting_tasks(client, "jfk")
    return [json.loads(_decoded(one["body"]))[:2] for one in found]


def _decoded(body: str) -> str:
    import base64

    return base64.b64decode(body).decode()


def group(sites: Directory, name: str) -> None:
    """A refresh group of jfk."""
    quoted = name.replace("'", "''")
    run(
        sites["jfk"],
        "INSERT INTO snaptide.refresh_group (name, master, master_id)"
        f" VALUES ('{quoted}', 'hq', gen_random_uuid())",
    )


def actions(sites: Directory) -> list[tuple[Any, ...]]:
    """The log of actions at jfk."""
    return run(
        sites["jfk"],
        "SELECT operator, command, outcome FROM snaptide.operator_action ORDER BY id",
    )


def test_nothing_is_scheduled(browser: Browser) -> None:
    page = browser.get(PAGE)
    assert "Nothing is scheduled here." in page
    assert "snaptide schedule list jfk" in page
    assert f'href="{PAGE}"' in browser.get("/sites/jfk")


def test_next_runs_errors_and_lateness(
    sites: Directory, browser: Browser, snaptide: Snaptide
) -> None:
    jfk = sites["jfk"]
    group(sites, "airport")
    schedules.schedule(jfk, "refresh", "airport", every="0 6 * * *")
    schedules.schedule(jfk, "purge", every="1h", record_days=7)
    page = browser.get(PAGE)
    assert len(set(re.findall(r"\d{4}-\d\d-\d\d 06:00:00 UTC", page))) == 3
    assert "record_days=7" in page
    assert "Beat has never looked at this site" in page
    run_each(
        jfk,
        "UPDATE snaptide.schedule SET next_at = now() - interval '2 hours',"
        " last_error = 'SNP-9 no luck' WHERE kind = 'purge'",
        "UPDATE snaptide.schedule SET asked_at = now() - interval '3 min'"
        " WHERE kind = 'refresh'",
        "INSERT INTO snaptide.beat VALUES (1, now())",
    )
    page = browser.get(PAGE)
    assert "SNP-9 no luck" in page
    assert "beat has not asked for it" in page
    assert "no worker has finished it" in page
    assert ">2 h<" in page
    assert ">3 min<" in page
    assert "Beat has" not in page
    assert "SNP-9 no luck" in snaptide.said("schedule", "list", "jfk", "--json")


def test_a_schedule_written_by_hand_is_shown(
    sites: Directory, browser: Browser
) -> None:
    run(
        sites["jfk"],
        "INSERT INTO snaptide.schedule (kind, subject, interval)"
        " VALUES ('purge', '*', 'now and then'), ('check', '*', '0 0 31 2 *')",
    )
    page = browser.get(PAGE)
    assert "now and then" in page
    assert "0 0 31 2 *" in page


def test_pause_and_go_on(sites: Directory, browser: Browser) -> None:
    schedules.schedule(sites["jfk"], "purge", every="1h")
    page = browser.follow(browser.send(f"{PAGE}/disable", {"of": "purge *"}, of=PAGE))
    assert "It is paused." in page
    assert "snaptide schedule disable jfk purge" in page
    assert ">disabled<" in page
    assert schedules.list_schedules(sites["jfk"])[0].disabled
    page = browser.follow(browser.send(f"{PAGE}/enable", {"of": "purge *"}, of=PAGE))
    assert not schedules.list_schedules(sites["jfk"])[0].disabled
    assert [(who, outcome) for who, _, outcome in actions(sites)] == [
        ("operator", "It is paused."),
        ("operator", "It runs again."),
    ]
    assert "schedule enable jfk purge" in browser.get("/actions")


def test_a_viewer_sees_no_buttons(sites: Directory, tmp_path: Path) -> None:
    schedules.schedule(sites["jfk"], "purge", every="1h")
    page = Browser(console(sites, tmp_path), "viewer").get(PAGE)
    assert "purge" in page
    assert "formaction" not in page


def test_what_is_not_scheduled(sites: Directory, browser: Browser) -> None:
    schedules.schedule(sites["jfk"], "purge", every="1h")
    for wrong in ("", "purge", "x\0 y"):
        answer = browser.send(f"{PAGE}/disable", {"of": wrong}, of=PAGE)
        assert answer.status_code in (400, 404), wrong
    answer = browser.send(f"{PAGE}/disable", {"of": "push hq"}, of=PAGE)
    assert answer.status_code == 404
    assert "No push of hq is scheduled here." in answer.text


def test_without_a_broker_the_page_says_what_to_run(
    sites: Directory, browser: Browser
) -> None:
    group(sites, "airport")
    schedules.schedule(sites["jfk"], "check", "airport", every="1d")
    schedules.schedule(sites["jfk"], "purge", every="1d")
    page = browser.get(PAGE)
    assert "The console has no broker" in page
    assert "snaptide check run jfk airport --save" in page
    assert "<code>snaptide purge jfk</code>" in page
    assert "Run now</button>" not in page
    answer = browser.send(f"{PAGE}/run", {"of": "purge *"}, of=PAGE)
    assert answer.status_code == 503
    assert "No worker can be asked" in answer.text
    assert actions(sites) == []


def test_a_worker_is_asked_to_run_one_now(
    sites: Directory, with_broker: Browser, broker: str
) -> None:
    group(sites, "airport")
    for _ in range(2):
        schedules.schedule(
            sites["jfk"], "refresh", "airport", every="0 6 * * *", method="c"
        )
    due = schedules.list_schedules(sites["jfk"])[0].next_at
    answer = with_broker.send(f"{PAGE}/run", {"of": "refresh airport"}, of=PAGE)
    page = with_broker.follow(answer)
    assert "Given to the workers as task" in page
    assert "snaptide schedule run jfk refresh airport" in page
    assert queued(broker) == [[["jfk", "airport"], {"method": "c"}]]
    assert schedules.list_schedules(sites["jfk"])[0].next_at == due
    [(who, command, outcome)] = actions(sites)
    assert (who, command) == (
        "operator",
        "snaptide schedule run jfk refresh airport",
    )
    assert outcome.startswith("Given to the workers")


def test_the_command_asks_as_the_console_does(
    sites: Directory, broker: str, write_settings: WriteSettings, snaptide: Snaptide
) -> None:
    schedules.schedule(sites["jfk"], "purge", every="1h", record_days=7)
    assert "SNP-402" in snaptide.said("schedule", "run", "jfk", "purge", code=4)
    asking = Snaptide(write_settings(sites, broker))
    report = asking.report("schedule", "run", "jfk", "purge")
    assert (report["task"], report["site"], report["subject"]) == ("purge", "jfk", "*")
    assert queued(broker) == [[["jfk"], {"record_days": 7}]]
    assert "SNP-342" in asking.said("schedule", "run", "jfk", "push", "hq", code=1)


def test_the_console_of_the_command_asks_the_broker_of_the_settings(
    sites: Directory, broker: str, write_settings: WriteSettings
) -> None:
    schedules.schedule(sites["jfk"], "purge", every="1h")
    alone = made_console(Program(config=write_settings(sites)))
    assert alone.run_schedule is None
    made = made_console(Program(config=write_settings(sites, broker)))
    assert made.run_schedule is not None
    made.run_schedule(made.sites["jfk"], "purge", "*")
    assert queued(broker) == [[["jfk"], {}]]
    for each in (alone, made):
        each.sites.close()


def test_a_broker_that_is_away(
    sites: Directory, tmp_path: Path, write_settings: WriteSettings
) -> None:
    schedules.schedule(sites["jfk"], "purge", every="1h")
    app = celery_app(Settings.load(write_settings(sites, "redis://127.0.0.1:1/0")))
    ask = partial(scheduled.run_now, app)
    browser = Browser(console(sites, tmp_path, run_schedule=ask))
    answer = browser.send(f"{PAGE}/run", {"of": "purge *"}, of=PAGE)
    assert answer.status_code == 503
    assert "The broker does not answer." in answer.text
    [(_, _, outcome)] = actions(sites)
    assert outcome == "SNP-402 The broker does not answer."


def test_ten_thousand_schedules(sites: Directory, with_broker: Browser) -> None:
    browser = with_broker
    run(
        sites["jfk"],
        "INSERT INTO snaptide.schedule (kind, subject, interval)"
        " SELECT 'push', 'd' || to_char(g, 'FM00000'), '1h'"
        " FROM generate_series(1, 10000) g",
    )
    page = browser.get(PAGE)
    assert "1 to 50 of 10,000" in page
    assert len(page.encode()) < 80_000
    last = browser.get(f"{PAGE}?from=9999")
    assert "10,000 to 10,000 of 10,000" in last
    data = {"of": "push d10000", "from": "9999"}
    answer = browser.send(f"{PAGE}/disable", data, of=PAGE)
    assert answer.headers["location"] == f"{PAGE}?from=9999"


@pytest.mark.parametrize("name", [HOSTILE, 'o\'hare "x" y', HOSTILE * 40, "<" * 2_600])
def test_hostile_names_are_text_and_can_be_chosen(
    sites: Directory, with_broker: Browser, name: str
) -> None:
    browser = with_broker
    for number in range(60 if len(name) > 1000 else 1):
        group(sites, f"{name}{number}")
        schedules.schedule(sites["jfk"], "refresh", f"{name}{number}", every="1h")
    run(sites["jfk"], f"UPDATE snaptide.schedule SET last_error = '{HOSTILE[:25]}'")
    page = browser.get(PAGE)
    assert "<script>alert" not in page
    assert "49 &amp;" not in page
    assert len(page.encode()) < 80_000
    [sent, *_] = re.findall(r'name="of" value="([^"]*)"', page)
    browser.follow(browser.send(f"{PAGE}/disable", {"of": unescape(sent)}, of=PAGE))
    assert next(one.disabled for one in schedules.list_schedules(sites["jfk"]))


def test_a_site_that_is_away(sites: Directory, tmp_path: Path) -> None:
    with Directory({"gone": sites["hq"].url.set(port=1, host="127.0.0.1")}) as some:
        browser = Browser(console(some, tmp_path))
        away = "/sites/gone/schedules"
        assert "The site does not answer" in browser.get(away, 503)
        for verb in ("disable", "enable"):
            answer = browser.send(f"{away}/{verb}", {"of": "purge *"})
            assert answer.status_code == 503
