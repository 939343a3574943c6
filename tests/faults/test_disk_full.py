"""The disk of either side runs full in mid-push or mid-refresh; room is all."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

import deferred
import snapshots
from masters import create_snapshot_log
from sites import Directory, Site
from sites.errors import SnaptideError
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_db import TEST_SETTINGS
from tests.fix_disk import Disk
from tests.fix_moments import Moments
from tests.fix_worker import eventually
from tests.linked_table import as_refresh, link, parked, queued, rows, run
from tests.stories import assert_equal_to_master, refresh

# A server may end a session while SQLAlchemy asks it the first questions; Python has to
# close that one.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

#: So that neither segments of the log nor memory hide that there is no room.
SMALL = {
    **TEST_SETTINGS,
    "shared_buffers": "1MB",
    "max_wal_size": "32MB",
    "min_wal_size": "32MB",
    "wal_recycle": "off",
}
LARGE = "UPDATE orders SET name = repeat(md5(id::text), 100) || id"
COLUMNS = "id int PRIMARY KEY, name text"
_CREATE = f"CREATE TABLE orders ({COLUMNS})"
_INSERT = "INSERT INTO orders SELECT g, 'a' FROM generate_series(1, 2000) g"


@pytest.fixture
def server_on_it(small_disk: Disk, pg_version: int) -> Iterator[PostgresServer]:
    """A server whose data lie on the small disk."""
    server = PostgresServer(small_disk.folder / "pg", pg_version, settings=SMALL)
    server.start()
    yield server
    small_disk.free()
    server.stop()


@pytest.mark.parametrize(
    ("side", "point"),
    [
        ("hq", "push.after_cut"),
        ("hq", "push.before_apply"),
        ("hq", "push.before_commit"),
        ("jfk", "push.before_cut_commit"),
        ("jfk", "push.before_mark"),
    ],
)
def test_push_goes_on_when_there_is_room(
    make_sites: Callable[..., Directory],
    server_on_it: PostgresServer,
    small_disk: Disk,
    moments: Moments,
    side: str,
    point: str,
) -> None:
    sites = _made(make_sites, server_on_it, side)
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, "orders", COLUMNS)
    for site in (hq, jfk):
        as_refresh(site, _INSERT)
    run(jfk, LARGE)
    moments.at(point, lambda: _fill(small_disk, sites[side]))
    # What is small enough still fits into the part of the log that is there.
    with suppress(SnaptideError, DBAPIError):
        deferred.push(jfk)
    assert point in moments.reached
    assert small_disk.says in server_on_it.log.read_text()
    small_disk.free()
    eventually(lambda: _pushes(server_on_it, jfk), what="a push to come through")
    assert (queued(jfk), parked(hq)) == (0, [])
    assert rows(hq) == rows(jfk)
    assert deferred.push(jfk).transactions == 0
    sites.close()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("side", "point"),
    [
        ("hq", "refresh.after_window"),
        ("jfk", "refresh.after_window"),
        ("jfk", "refresh.before_merge_commit"),
    ],
)
def test_refresh_goes_on_when_there_is_room(
    make_sites: Callable[..., Directory],
    server_on_it: PostgresServer,
    small_disk: Disk,
    moments: Moments,
    side: str,
    point: str,
) -> None:
    sites = _made(make_sites, server_on_it, side)
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, _CREATE, _INSERT)
    create_snapshot_log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    refresh(jfk, "orders")
    run(hq, LARGE)
    moments.at(point, lambda: _fill(small_disk, sites[side]))
    with suppress(SnaptideError, DBAPIError, psycopg.Error):
        refresh(jfk, "orders")
    assert point in moments.reached
    assert small_disk.says in server_on_it.log.read_text()
    small_disk.free()
    eventually(lambda: _refreshes(server_on_it, jfk), what="a refresh to come through")
    assert_equal_to_master(jfk)
    assert refresh(jfk, "orders")["orders"].updated == 0
    sites.close()


def _made(
    make_sites: Callable[..., Directory], server: PostgresServer, side: str
) -> Directory:
    """Two sites, one of them on the small disk."""
    other = {"hq": "jfk", "jfk": "hq"}[side]
    shared = make_sites(other)[other]
    url = shared.url.set(drivername="postgresql").render_as_string(hide_password=False)
    sites = Directory({side: server.create_database(side), other: url})
    migrate.upgrade(sites[side])
    return sites


# The server may have ended or be recovering, or may not have noticed yet that it has
# to, or that sessions of before are gone, which hold locks.
_NOT_YET = (SnaptideError, DBAPIError, psycopg.Error)


def _pushes(server: PostgresServer, site: Site) -> bool:
    """Whether a push comes through."""
    _have_running(server)
    try:
        return not deferred.push(site).another_pusher
    except _NOT_YET:
        return False


def _refreshes(server: PostgresServer, site: Site) -> bool:
    """Whether a refresh comes through."""
    _have_running(server)
    try:
        refresh(site, "orders")
    except _NOT_YET:
        return False
    return True


def _have_running(server: PostgresServer) -> None:
    if not server.is_running():
        server.start()


def _fill(disk: Disk, site: Site) -> None:
    """Have no room left, neither for rows nor for what is written ahead of them."""
    disk.fill()
    url = site.url.set(drivername="postgresql").render_as_string(hide_password=False)
    # What the server still has at hand is used up by somebody else.
    with pytest.raises(psycopg.Error), psycopg.connect(url) as session:
        session.execute(
            "CREATE TABLE hog AS SELECT repeat('x', 500) FROM orders, orders o"
        )
