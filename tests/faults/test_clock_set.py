"""The clock of a site is set back or forward: nothing is lost, and nothing stops."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import deferred
import masters
from deferred import schedules
from sites import Directory, Site
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_clock import Clock
from tests.linked_table import as_refresh, link, parked, queued, rows, run

DAYS = [timedelta(days=3), timedelta(days=-3)]


@pytest.fixture
def sites(
    make_sites: Callable[..., Directory],
    server_with_clock: PostgresServer,
    clock: Clock,
) -> Iterator[Directory]:
    """Two sites, of which jfk has a clock that can be set."""
    hq = make_sites("hq")["hq"]
    url = hq.url.set(drivername="postgresql").render_as_string(hide_password=False)
    sites = Directory({"hq": url, "jfk": server_with_clock.create_database("jfk")})
    migrate.upgrade(sites["jfk"])
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0)")
    yield sites
    sites.close()
    server_with_clock.drop_database("jfk")


@pytest.mark.parametrize("ahead", DAYS)
def test_order_and_delivery_do_not_ask_the_clock(
    sites: Directory, clock: Clock, ahead: timedelta
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "UPDATE orders SET qty = 1")
    clock.set(ahead)
    assert abs(_now(jfk) - datetime.now(UTC) - ahead) < timedelta(hours=1)
    run(jfk, "UPDATE orders SET qty = 2")
    deferred.push(jfk)
    clock.set(timedelta(0))
    run(jfk, "UPDATE orders SET qty = 3")
    deferred.push(jfk)
    assert [row[2] for row in rows(hq)] == [3]
    assert (queued(jfk), parked(hq)) == (0, [])


@pytest.mark.parametrize("ahead", DAYS)
def test_commits_go_on_waking_the_pusher(
    sites: Directory, clock: Clock, ahead: timedelta
) -> None:
    """The time of the last notification may lie in the future."""
    jfk = sites["jfk"]
    url = jfk.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN snaptide_push")
        clock.set(ahead)
        run(jfk, "UPDATE orders SET qty = 1")
        assert len(list(listener.notifies(timeout=120, stop_after=1))) == 1
        clock.set(timedelta(0))
        run(jfk, "UPDATE orders SET qty = 2")
        assert len(list(listener.notifies(timeout=120, stop_after=1))) == 1


def test_purge_keeps_what_no_refresh_has_covered(
    sites: Directory, clock: Clock
) -> None:
    """Set forward, all is past its retention; keys that a refresh needs are kept.

    While a call waits, the others are kept, too.
    """
    jfk = sites["jfk"]
    run(jfk, "UPDATE orders SET qty = 1")
    deferred.push(jfk)
    run(jfk, "UPDATE orders SET qty = 2")
    clock.set(timedelta(days=400))
    report = deferred.purge(jfk)
    assert (report.calls, report.folded) == (0, 0)
    assert queued(jfk) == 1
    masters.purge_snapshot_logs(sites["hq"])
    clock.set(timedelta(0))
    deferred.push(jfk)
    assert [row[2] for row in rows(sites["hq"])] == [2]
    clock.set(timedelta(days=400))
    report = deferred.purge(jfk)
    assert (report.calls, report.folded) == (2, 2)
    assert run(jfk, 'SELECT DISTINCT k1 FROM snaptide."extra$_orders"') == [(1,)]


def test_schedules_go_on(sites: Directory, clock: Clock) -> None:
    """A clock that was ahead for a while does not stop them for as long."""
    jfk = sites["jfk"]
    deferred.schedule(jfk, "push", "hq", every="10m")
    deferred.schedule(jfk, "purge", every=_daily_at(_now(jfk) + timedelta(hours=12)))
    assert _claimed(jfk) == ["push"]
    clock.set(timedelta(days=3))
    assert _claimed(jfk) == ["purge", "push"]
    clock.set(timedelta(0))
    assert _claimed(jfk) == ["push"]
    assert _claimed(jfk) == []
    last = max(found.next_at for found in deferred.list_schedules(jfk))
    assert last - _now(jfk) <= timedelta(days=1)
    clock.set(timedelta(days=-3))
    assert _claimed(jfk) == ["push"]
    clock.set(timedelta(days=-3, minutes=20))
    assert _claimed(jfk) == ["push"]


def _claimed(site: Site) -> list[str]:
    with site.transaction() as connection:
        return sorted(found.kind for found in schedules.claim(connection))


def _daily_at(moment: datetime) -> str:
    """A time of day that no part of the test comes near, whenever it runs."""
    return f"0 {moment.astimezone(UTC).hour} * * *"


def _now(site: Site) -> datetime:
    [(now,)] = run(site, "SELECT clock_timestamp()")
    assert isinstance(now, datetime)
    return now
