"""`snaptide notify`: what goes wrong is told once, by whatever takes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import deferred
from sites import Directory
from snaptide.cli.failures import ExitCode
from snaptide.errors import BadLedger, HookFailed
from snaptide.news import telling
from snaptide.news.ledger import opened
from snaptide.news.seen import MOST, News, seen
from snaptide.news.telling import GIVEN_UP, Told, tell
from tests.fix_commands import Snaptide
from tests.fix_worker import Services, WriteSettings
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, without
from tests.linked_table import as_refresh, link_orders, run

HOSTILE = "<b>x</b>\" ' \n\x1b[31m {{ 7 * 7 }} $(id)"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    make_orders(sites)


def make_orders(sites: Directory) -> None:
    """Two orders, the same at both sites."""
    link_orders(sites, "(1, 'a', 10), (2, 'b', 20)")


def park(sites: Directory, number: int = 1) -> None:
    """Have a change of an order conflict with one at the master."""
    as_refresh(sites["hq"], f"UPDATE orders SET qty = 99 WHERE id = {number}")
    run(sites["jfk"], f"UPDATE orders SET qty = 15 WHERE id = {number}")
    deferred.push(sites["jfk"])


def fail(sites: Directory, error: str = "SNP-001 It is away.") -> None:
    """Have the last run of a schedule have failed."""
    run(
        sites["jfk"],
        "INSERT INTO snaptide.schedule (kind, subject, interval, last_error)"
        f" VALUES ('push', 'hq', '1h', $q${error}$q$)"
        " ON CONFLICT (kind, subject) DO UPDATE SET last_error = excluded.last_error",
    )


class Taken:
    """A hook under test: what it took, and whether it takes anything."""

    def __init__(self) -> None:
        self.news: list[News] = []
        self.fails = False

    def __call__(self, news: News) -> None:
        if self.fails:
            raise HookFailed("It is full.")
        self.news.append(news)


@pytest.fixture
def taken() -> Taken:
    return Taken()


def look(sites: Directory, path: Path, *known: Taken) -> Told:
    """Look at all sites once; hooks are called 0, 1, ..."""
    by_name = {str(n): one for n, one in enumerate(known)}
    return tell([*sites.values()], by_name, path / "told")


def kinds(news: Any) -> list[tuple[str, str, str]]:
    return [(one.site, one.kind, one.subject) for one in news]


def test_each_thing_is_told_once(
    orders: Directory, tmp_path: Path, taken: Taken
) -> None:
    assert look(orders, tmp_path, taken).news == []
    park(orders)
    fail(orders)
    found = look(orders, tmp_path, taken)
    [error] = deferred.list_errors(orders["hq"])
    expected = [("hq", "parked", str(error.id)), ("jfk", "schedule", "push hq")]
    assert kinds(found.news) == kinds(taken.news) == expected
    assert taken.news[0].todo == f"snaptide errors show hq {error.id}"
    fail(orders, "SNP-001 It is still away.")
    assert look(orders, tmp_path, taken).news == []
    park(orders, 2)
    assert [one.kind for one in look(orders, tmp_path, taken).news] == ["parked"]
    assert len(taken.news) == 3


def test_what_happens_again_is_told_again(
    orders: Directory, tmp_path: Path, taken: Taken
) -> None:
    fail(orders)
    look(orders, tmp_path, taken)
    run(orders["jfk"], "UPDATE snaptide.schedule SET last_error = NULL")
    look(orders, tmp_path, taken)
    fail(orders)
    look(orders, tmp_path, taken)
    assert kinds(taken.news) == [("jfk", "schedule", "push hq")] * 2
    run(orders["jfk"], "UPDATE snaptide.schedule SET disabled = true")
    assert seen(orders["jfk"]) == {}


def test_a_budget_that_is_exceeded_and_a_check_are_told(
    orders: Directory, tmp_path: Path, taken: Taken
) -> None:
    run(
        orders["jfk"],
        "INSERT INTO snaptide.destination_state (destination, state, reason)"
        " VALUES ('hq', 'invalid', 'more than 1 GB'), ('hq', 'disabled', 'by hand')",
        "INSERT INTO snaptide.check_run (began_at, seconds, columns, most)"
        " VALUES (now(), 1, '{}', 5), (now(), 1, '{}', 5)",
    )
    sql = (
        "INSERT INTO snaptide.check_snapshot (run_id, no, snapshot, refresh_group,"
        " master, master_table, rows_master, rows_here, moment_here, counts)"
        " SELECT id, 0, 'orders', 'g', 'hq', 'orders', 2, 2, '1:1:',"
    )
    counted = """ '[["differs", "unexplained", 2]]' FROM snaptide.check_run"""
    run(
        orders["jfk"],
        f"{sql}{counted}",
        # It looked at a part, and found nothing: that says nothing of the rest.
        "INSERT INTO snaptide.check_run (began_at, seconds, condition, columns, most)"
        " VALUES (now(), 1, 'id < 9', '{}', 5)",
        f"{sql} '[]' FROM snaptide.check_run WHERE id = 3",
    )
    found = look(orders, tmp_path, taken)
    assert [(one.kind, one.what) for one in found.news] == [
        ("destination", found.news[0].what),
        ("check", "2 rows differ without a reason."),
    ]
    assert found.news[0].what.startswith("Nothing is pushed to it: ")
    assert "more than 1 GB" in found.news[0].what
    assert found.news[1].subject == "2"


def test_rows_that_may_differ_between_masters_are_told_once(
    make_sites: Callable[..., Directory], tmp_path: Path, taken: Taken
) -> None:
    sites = make_sites("hq", "lax")
    found_group(sites, "hq", "lax")
    listed = (
        "INSERT INTO snaptide.differing_row"
        " (group_id, table_schema, table_name, key, why)"
        " SELECT id, 'public', 'orders', {}, 'By hand' FROM snaptide.replication_group"
    )
    row = "jsonb_build_object('id', '{}')"
    run(sites["lax"], listed.format(row.format(1)), listed.format(row.format(2)))
    look(sites, tmp_path, taken)
    assert kinds(taken.news) == [("lax", "differing", f"{GROUP} orders")]
    said = "2 rows may differ from those of other masters: By hand."
    assert taken.news[0].what == said
    assert taken.news[0].todo == f"snaptide group check lax {GROUP} orders"
    # More of them are the same news.
    run(sites["lax"], listed.format(row.format(3)))
    assert look(sites, tmp_path, taken).news == []
    # A comparison has found them equal; and then a row differs once more.
    run(sites["lax"], "DELETE FROM snaptide.differing_row")
    assert look(sites, tmp_path, taken).news == []
    run(sites["lax"], listed.format("NULL"))
    look(sites, tmp_path, taken)
    assert [one.what for one in taken.news] == [said, said.replace("2 rows", "Rows")]


def test_a_hook_that_fails_is_offered_it_again_and_others_are_not(
    orders: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = Taken(), Taken()
    slow.fails = True
    park(orders)
    assert look(orders, tmp_path, slow, quick).failed == {"0": "It is full."}
    assert look(orders, tmp_path, slow, quick).news == []
    assert (len(slow.news), len(quick.news)) == (0, 1)
    slow.fails = False
    assert look(orders, tmp_path, slow, quick).failed == {}
    assert (len(slow.news), len(quick.news)) == (1, 1)
    look(orders, tmp_path, slow, quick)
    assert (len(slow.news), len(quick.news)) == (1, 1)


def test_what_nobody_takes_is_given_up(
    orders: Directory, tmp_path: Path, taken: Taken
) -> None:
    taken.fails = True
    park(orders)
    look(orders, tmp_path, taken)
    with opened(tmp_path / "told") as ledger:
        [one] = ledger.untaken
        one.since = datetime.now(UTC) - GIVEN_UP - timedelta(seconds=1)
        ledger.save()
    assert kinds(look(orders, tmp_path, taken).given_up) == kinds([one.news])
    taken.fails = False
    look(orders, tmp_path, taken)
    assert taken.news == []


def test_a_crash_leaves_nothing_out(
    orders: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: Taken
) -> None:
    park(orders)
    with monkeypatch.context() as patch:
        patch.setattr(telling, "_offer", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            look(orders, tmp_path, taken)
    assert look(orders, tmp_path, taken).news == []
    assert [one.kind for one in taken.news] == ["parked"]


def test_many_parked_transactions_are_told_in_short(
    orders: Directory, tmp_path: Path, taken: Taken
) -> None:
    run(
        orders["hq"],
        "INSERT INTO snaptide.error_transaction (origin_id, origin, origin_transaction,"
        " origin_user, reason, error_code, error_message, batch_no, order_no)"
        " SELECT gen_random_uuid(), 'jfk', n::text, 'u', 'error', 'X', 'no', 1, n"
        " FROM generate_series(1, 10000) n",
    )
    look(orders, tmp_path, taken)
    assert len(taken.news) == MOST + 1
    assert (
        taken.news[-1].what == f"{10_000 - MOST:,} more transactions have been parked."
    )
    assert look(orders, tmp_path, taken).news == []


def test_a_site_that_is_away_forgets_nothing(
    orders: Directory, tmp_path: Path, taken: Taken
) -> None:
    park(orders)
    look(orders, tmp_path, taken)
    with without(orders, "hq") as left:
        assert [*look(left, tmp_path, taken).away] == ["hq"]
    assert look(orders, tmp_path, taken).news == []
    assert len(taken.news) == 1


@pytest.mark.parametrize("content", ["{", "[]", '{"told": {}, "untaken": [{}]}'])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "told").write_text(content)
    with pytest.raises(BadLedger):
        tell([], {}, tmp_path / "told")
    with pytest.raises(BadLedger):
        tell([], {}, tmp_path / "nowhere" / "told")


def test_the_command_line(sites: Directory, snaptide: Snaptide, tmp_path: Path) -> None:
    make_orders(sites)
    park(sites)
    path = str(tmp_path / "told")
    said = snaptide.said("notify", "--told", path)
    assert said.startswith("hq parked ")
    assert "snaptide errors show hq" in said
    assert snaptide.said("notify", "--told", path).strip() == ""
    fail(sites, HOSTILE)
    report = snaptide.report("notify", "--told", path)
    [one] = report["news"]
    assert one["kind"] == "schedule"
    assert one["what"] == ("The last run failed: <b>x</b>\" ' ?[31m {{ 7 * 7 }} $(id)")


def test_a_site_away_and_a_hook_that_fails_are_said(
    sites: Directory, write_settings: WriteSettings
) -> None:
    gone = sites["hq"].url.set(port=1, host="127.0.0.1")
    with Directory({"jfk": sites["jfk"].url, "gone": gone}) as some:
        command = Snaptide(
            write_settings(some, more='[notification]\ncommand = ["false"]\n')
        )
        fail(sites)
        said = command.said("notify", code=ExitCode.UNREACHABLE)
        assert "gone is away: " in said
        assert "Hook command: The command ended with 1." in said
        said = command.said("notify", "jfk", code=ExitCode.ATTENTION)
        assert said.strip() == "Hook command: The command ended with 1."
        command.said("notify", "jfk", "--every", "soon", code=ExitCode.USAGE)


def test_it_goes_on_and_logs_what_is_new(
    sites: Directory, write_settings: WriteSettings, tmp_path: Path
) -> None:
    make_orders(sites)
    taken = tmp_path / "taken"
    script = f"import sys; open({str(taken)!r}, 'a').write(sys.stdin.read() + chr(10))"
    command = json.dumps([sys.executable, "-c", script])
    config = write_settings(sites, more=f"[notification]\ncommand = {command}\n")
    services = Services(config)
    try:
        started = services.snaptide("notify", "--every", "0.5s", "--log-format", "json")
        park(sites)
        started.wait_for_line("hq parked ")
        fail(sites)
        started.wait_for_line("jfk schedule push hq")
        run(sites["jfk"], "UPDATE snaptide.schedule SET last_error = NULL")
    finally:
        services.stop()
    lines = [json.loads(line) for line in started.printed().splitlines()]
    found = [(one["event"], one["site"]) for one in lines if "event" in one]
    assert found == [("parked", "hq"), ("schedule", "jfk")]
    told = [json.loads(line)["kind"] for line in taken.read_text().splitlines()]
    assert told == ["parked", "schedule"]
    assert (tmp_path / "snaptide.told").exists()
