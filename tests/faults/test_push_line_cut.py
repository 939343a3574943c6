"""Servers die and lines break in the middle of a push; nothing is lost or doubled."""

from collections.abc import Callable

import pytest

import deferred
from deferred.errors import PushInterrupted
from sites import Directory, Site, faults
from sites.errors import SiteUnreachable
from sites.sessions import identity
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.at_point import AtPoint
from tests.fix_proxy import Proxy
from tests.linked_table import as_refresh, link, parked, queued, rows, run

#: Each transaction by itself, so that there is a second to be stopped at.
EACH = 1
COUNT_UP = "UPDATE orders SET qty = qty + 1"


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that has something done in the middle of a push."""

    def arrange(name: str, action: Callable[[], None], nth: int = 1) -> None:
        monkeypatch.setattr(faults, "point", AtPoint(name, action, nth).point)

    return arrange


@pytest.fixture
def proxied(
    sites: Directory, make_proxy: Callable[[str], Proxy]
) -> tuple[Directory, Proxy]:
    """The same sites, with hq behind a proxy for whoever pushes."""
    _fill(sites)
    proxy = make_proxy(_url(sites["hq"]))
    return Directory({"hq": proxy.url, "jfk": _url(sites["jfk"])}), proxy


POINTS = [
    ("push.after_cut", 1),
    ("push.after_ship", 1),
    ("push.before_apply", 2),
    ("push.after_apply", 2),
    ("push.after_commit", 2),
]


@pytest.mark.parametrize(("point", "nth"), POINTS)
def test_line_to_the_master_is_cut(
    sites: Directory,
    proxied: tuple[Directory, Proxy],
    at_point: Callable[..., None],
    point: str,
    nth: int,
) -> None:
    far, proxy = proxied
    at_point(point, proxy.cut, nth)
    with pytest.raises(PushInterrupted) as caught:
        deferred.push(far["jfk"], group_max_calls=EACH)
    assert _last_error(sites["jfk"]) in caught.value.message
    deferred.push(far["jfk"])
    far.close()
    _assert_delivered_once(sites)
    assert _last_error(sites["jfk"]) == ""


def test_line_is_cut_while_calls_are_shipped(
    sites: Directory,
    proxied: tuple[Directory, Proxy],
    at_point: Callable[..., None],
) -> None:
    """COPY is the driver's own; what it raises must look like all else."""
    far, proxy = proxied
    run(
        sites["jfk"],
        "INSERT INTO orders SELECT g, repeat('x', 4000) || g, 0"
        " FROM generate_series(10, 5000) g",
    )
    # Of the 20 MB that a COPY sends in pieces of 64 kB at most; few messages begin it.
    at_point("push.after_cut", lambda: proxy.cut_before(100))
    with pytest.raises(PushInterrupted):
        deferred.push(far["jfk"])
    assert proxy.cut_before(0)
    assert _last_error(sites["jfk"]) != ""
    assert deferred.push(far["jfk"]).transactions == 5
    far.close()
    assert rows(sites["hq"]) == rows(sites["jfk"])


@pytest.mark.parametrize(("point", "nth"), [POINTS[3], POINTS[4]])
def test_master_server_dies(
    make_sites: Callable[..., Directory],
    own_server: PostgresServer,
    at_point: Callable[..., None],
    point: str,
    nth: int,
) -> None:
    sites = _with_own(make_sites, own_server, "hq")
    at_point(point, own_server.kill, nth)
    with pytest.raises(PushInterrupted):
        deferred.push(sites["jfk"], group_max_calls=EACH)
    own_server.start()
    deferred.push(sites["jfk"])
    _assert_delivered_once(sites)
    sites.close()


@pytest.mark.parametrize(("point", "nth"), [POINTS[3]])
def test_origin_server_dies(
    make_sites: Callable[..., Directory],
    own_server: PostgresServer,
    at_point: Callable[..., None],
    point: str,
    nth: int,
) -> None:
    sites = _with_own(make_sites, own_server, "jfk")
    at_point(point, own_server.kill, nth)
    with pytest.raises((PushInterrupted, SiteUnreachable)):
        deferred.push(sites["jfk"], group_max_calls=EACH)
    own_server.start()
    deferred.push(sites["jfk"])
    _assert_delivered_once(sites)
    sites.close()


def _with_own(
    make_sites: Callable[..., Directory], server: PostgresServer, name: str
) -> Directory:
    """Two sites, one of them on a server that the test may kill."""
    other = {"hq": "jfk", "jfk": "hq"}[name]
    shared = make_sites(other)[other]
    sites = Directory({name: server.create_database(name), other: _url(shared)})
    migrate.upgrade(sites[name])
    with sites[name].transaction() as connection:
        assert identity.read(connection).name == name
    _fill(sites)
    return sites


def _fill(sites: Directory) -> None:
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0), (2, 'b', 0)")
    for _ in range(4):
        run(sites["jfk"], COUNT_UP)


def _assert_delivered_once(sites: Directory) -> None:
    assert [row[2] for row in rows(sites["hq"])] == [4, 4]
    assert parked(sites["hq"]) == []
    assert queued(sites["jfk"]) == 0
    assert deferred.push(sites["jfk"]).transactions == 0


def _last_error(site: Site) -> str:
    [(text,)] = run(site, "SELECT COALESCE(last_error, '') FROM snaptide.destination")
    return str(text)


def _url(site: Site) -> str:
    return site.url.set(drivername="postgresql").render_as_string(hide_password=False)
