"""A line that swallows what is sent, or passes it on slowly, in mid-refresh."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest
from sqlalchemy.exc import SQLAlchemyError

import snapshots
from sites import Directory, Site
from sites.errors import SnaptideError
from tests.fix_moments import Moments
from tests.fix_proxy import Proxy
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def proxied(
    sites: Directory, make_proxy: Callable[[str], Proxy]
) -> tuple[Directory, Proxy]:
    """A snapshot with changes at both sides, and hq behind a proxy for refreshes."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT i, 'first' FROM generate_series(1, 9) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(hq, "UPDATE public.t SET v = 'theirs' WHERE id < 5")
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 9")
    proxy = make_proxy(_url(hq))
    return Directory({"hq": proxy.url, "jfk": _url(jfk)}), proxy


@pytest.mark.parametrize(
    "point", ["refresh.after_window", "refresh.after_stage", "refresh.before_advance"]
)
def test_line_falls_silent(
    sites: Directory, proxied: tuple[Directory, Proxy], moments: Moments, point: str
) -> None:
    """Users of either side get all rows while the refresh waits for an answer."""
    far, proxy = proxied
    moments.at(point, proxy.deafen)
    with ThreadPoolExecutor(1) as pool:
        refreshing = pool.submit(refresh, far["jfk"], "t")
        eventually(lambda: point in moments.reached, what="the refresh to get there")
        for site in sites.values():
            _write_everything(site)
        assert not refreshing.done()
        # What the keepalives of the system do after a minute.
        proxy.cut()
        proxy.hear()
        with suppress(SnaptideError, SQLAlchemyError, psycopg.Error):
            refreshing.result(timeout=120)
    far.close()
    _assert_settles(sites)


def test_line_is_slow_and_cut(
    sites: Directory, proxied: tuple[Directory, Proxy], moments: Moments
) -> None:
    far, proxy = proxied
    proxy.delay = 0.02
    moments.at("refresh.after_window", proxy.cut)
    with suppress(SnaptideError, SQLAlchemyError, psycopg.Error):
        refresh(far["jfk"], "t")
    assert "refresh.after_window" in moments.reached
    assert refresh(far["jfk"], "t")["t"].held_back == 1
    far.close()
    _assert_settles(sites)


def _write_everything(site: Site) -> None:
    with user(site) as session:
        session.execute("SET lock_timeout = '120s'")
        session.execute("UPDATE public.t SET v = v || '!'")
        session.commit()


def _assert_settles(sites: Directory) -> None:
    """What both sides wrote is a conflict: parked, and the master's row stays."""
    settle(sites["jfk"])
    assert_equal_to_master(sites["jfk"])


def _url(site: Site) -> str:
    return site.url.set(drivername="postgresql").render_as_string(hide_password=False)
