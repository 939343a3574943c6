"""A line that swallows what is sent, or passes it on slowly, in mid-push."""

import importlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import deferred
from deferred.errors import PushInterrupted
from sites import Directory, Site
from tests.fix_moments import Moments
from tests.fix_proxy import Proxy
from tests.fix_worker import eventually
from tests.linked_table import application, as_refresh, link, parked, queued, rows, run

marker = importlib.import_module("deferred.batches.marker")


@pytest.fixture
def proxied(
    sites: Directory, make_proxy: Callable[[str], Proxy]
) -> tuple[Directory, Proxy]:
    """Two sites, with hq behind a proxy for whoever pushes, and four transactions."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0), (2, 'b', 0)")
    for _ in range(4):
        run(sites["jfk"], "UPDATE orders SET qty = qty + 1")
    proxy = make_proxy(_url(sites["hq"]))
    return Directory({"hq": proxy.url, "jfk": _url(sites["jfk"])}), proxy


@pytest.mark.parametrize("point", ["push.after_apply", "push.before_commit"])
def test_line_falls_silent(
    sites: Directory,
    proxied: tuple[Directory, Proxy],
    moments: Moments,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """Users of the master get their rows before either end knows that it is broken."""
    far, proxy = proxied
    hq, jfk = sites["hq"], sites["jfk"]
    monkeypatch.setattr(marker, "IDLE_TIMEOUT", "4s")
    moments.at(point, proxy.deafen)
    with ThreadPoolExecutor(1) as pool:
        pushing = pool.submit(deferred.push, far["jfk"], group_max_calls=0)
        eventually(lambda: point in moments.reached, what="the push to get there")
        with application(hq) as user:
            user.execute("SET lock_timeout = '120s'")
            user.execute("SELECT FROM orders FOR UPDATE")
        assert not pushing.done()
        # What the keepalives of the system do after a minute.
        proxy.cut()
        with pytest.raises(PushInterrupted):
            pushing.result(timeout=120)
    proxy.hear()
    monkeypatch.setattr(marker, "IDLE_TIMEOUT", "30s")
    deferred.push(far["jfk"])
    far.close()
    _assert_delivered_once(hq, jfk)


def test_line_is_slow(
    sites: Directory, proxied: tuple[Directory, Proxy], moments: Moments
) -> None:
    far, proxy = proxied
    proxy.delay = 0.02
    moments.at("push.after_apply", proxy.cut)
    with pytest.raises(PushInterrupted):
        deferred.push(far["jfk"])
    begun = time.monotonic()
    deferred.push(far["jfk"])
    assert time.monotonic() - begun > 4 * proxy.delay
    far.close()
    _assert_delivered_once(sites["hq"], sites["jfk"])


def _assert_delivered_once(hq: Site, jfk: Site) -> None:
    assert [row[2] for row in rows(hq)] == [4, 4]
    assert (queued(jfk), parked(hq)) == (0, [])
    assert deferred.push(jfk).transactions == 0


def _url(site: Site) -> str:
    return site.url.set(drivername="postgresql").render_as_string(hide_password=False)
