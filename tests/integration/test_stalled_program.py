"""A program that is stopped in mid-transaction keeps no row from users for long."""

import importlib

import pytest

import deferred
from deferred.errors import PushInterrupted
from sites import Directory
from sites.sessions.settings import SETTINGS
from tests.fix_moments import Moments
from tests.linked_table import application, as_refresh, link, parked, queued, rows, run

marker = importlib.import_module("deferred.batches.marker")


@pytest.mark.parametrize("point", ["push.after_apply", "push.before_commit"])
def test_users_of_the_master_get_the_row(
    sites: Directory, moments: Moments, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0)")
    run(jfk, "UPDATE orders SET qty = 7")
    monkeypatch.setattr(marker, "IDLE_TIMEOUT", "2s")

    def use_the_row() -> None:
        with application(hq) as user:
            user.execute("SET lock_timeout = '120s'")
            user.execute("SELECT FROM orders WHERE id = 1 FOR UPDATE")

    # The push does nothing as long as the user waits.
    moments.at(point, use_the_row)
    with pytest.raises(PushInterrupted):
        deferred.push(jfk)
    assert queued(jfk) == 1
    monkeypatch.setattr(marker, "IDLE_TIMEOUT", "30s")
    deferred.push(jfk)
    assert [row[2] for row in rows(hq)] == [7]
    assert (queued(jfk), parked(hq)) == (0, [])


def test_server_looks_whether_our_machine_is_there(sites: Directory) -> None:
    [(idle, interval, count, unanswered)] = run(
        sites["hq"],
        "SELECT current_setting('tcp_keepalives_idle')::int,"
        " current_setting('tcp_keepalives_interval')::int,"
        " current_setting('tcp_keepalives_count')::int,"
        " (SELECT setting::int FROM pg_settings WHERE name = 'tcp_user_timeout')",
    )
    assert (idle, interval, count, unanswered) == (30, 10, 3, 60_000)
    assert idle + interval * count <= int(SETTINGS["tcp_user_timeout"]) / 1000
