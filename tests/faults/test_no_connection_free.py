"""A master allows fewer connections than all who work there want at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from sqlalchemy import text

import deferred
import snapshots
from deferred import runs, schedules
from sites import Directory, NoConnectionFree, Site
from sites.sessions import full
from snaptide.embedded import PostgresServer
from tests import few_connections
from tests.fix_worker import eventually
from tests.linked_table import run
from tests.stories import assert_equal_to_master

#: So few that eight refreshes at once, with up to three each, cannot have all.
ALLOWED = 6
NAMES = tuple(f"site{number}" for number in range(8))


@pytest.fixture
def few(
    own_server: PostgresServer, make_sites: Callable[..., Directory], spark: object
) -> Iterator[Directory]:
    """hq, on a server with few connections, and its sites, on another."""
    few_connections.allow(own_server, ALLOWED)
    others = {name: site.url for name, site in make_sites(*NAMES).items()}
    with Directory({"hq": own_server.create_database("hq"), **others}) as sites:
        few_connections.make_master(sites["hq"])
        yield sites


@contextmanager
def all_taken(hq: Site, but: int = 0) -> Iterator[None]:
    """Others have every connection that the server allows, but for some."""
    hq.close()
    with ExitStack() as taken:
        for _ in range(ALLOWED - but):
            taken.enter_context(psycopg.connect(hq.libpq_uri()))
        yield


def create(sites: Directory, *names: str) -> None:
    for name in names:
        snapshots.create(sites[name], "t", master="hq", updatable=True)


def test_refreshes_of_many_sites_share_what_there_is(few: Directory) -> None:
    create(few, *NAMES)
    each = [few[name] for name in NAMES]
    for site in each:
        snapshots.refresh(site, "t")
    for number in range(1, 3):
        run(few["hq"], f"INSERT INTO t VALUES ({number}, 0)")
        for site in each:
            run(site, f"INSERT INTO t VALUES ({number}0{site.name[-1]}, 0)")
        found = snapshots.refresh_many(each)
        assert [one.why for one in found if one.report is None] == []
    snapshots.refresh_many(each)
    assert_equal_to_master(*each)


def test_first_loads_of_many_sites_share_what_there_is(few: Directory) -> None:
    """Each needs three at once, and none keeps what another one waits for."""
    create(few, *NAMES)
    rows = "INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g"
    run(few["hq"], rows)
    each = [few[name] for name in NAMES]
    found = snapshots.refresh_many(each)
    assert [one.why for one in found if one.report is None] == []
    assert_equal_to_master(*each)


def test_a_push_has_fewer_streams_where_there_is_no_room(few: Directory) -> None:
    create(few, "site0")
    home = few["site0"]
    snapshots.refresh(home, "t")
    for number in range(30):
        run(home, f"INSERT INTO t VALUES ({number}, {number})")
    with all_taken(few["hq"], but=3):
        assert deferred.push(home, parallelism=8).transactions == 30
    snapshots.refresh(home, "t")
    assert_equal_to_master(home)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a server has refused a connection to this process."""
    event = threading.Event()
    found = full.has_no_room

    def seen(error: BaseException) -> bool:
        if found(error):
            event.set()
        return found(error)

    monkeypatch.setattr(full, "has_no_room", seen)
    return event


def test_a_refresh_that_waits_keeps_no_connection_from_others(
    few: Directory, refused: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(few, "site0")
    hq, home = few["hq"], few["site0"]
    snapshots.refresh(home, "t")
    run(hq, "INSERT INTO t VALUES (1, 0)")
    monkeypatch.setattr(full, "PATIENCE", 600.0)
    with ThreadPoolExecutor() as pool:
        with all_taken(hq, but=1):
            work = pool.submit(snapshots.refresh, home, "t", push_deferred_rpc=False)
            assert refused.wait(60)
            # It had the last one when it was refused a second one.
            eventually(lambda: _connects(hq), what="the last connection")
            assert not work.done()
        work.result()
    assert_equal_to_master(home)


def _connects(site: Site) -> bool:
    try:
        psycopg.connect(site.libpq_uri()).close()
    except psycopg.OperationalError:
        return False
    return True


def test_work_begins_when_a_connection_becomes_free(
    few: Directory, refused: threading.Event
) -> None:
    create(few, "site0")
    with ThreadPoolExecutor() as pool:
        with all_taken(few["hq"]):
            work = pool.submit(snapshots.refresh, few["site0"], "t")
            assert refused.wait(60)
            assert not work.done()
        work.result()


def test_no_connection_is_no_failure_in_the_history(
    few: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(few, "site0")
    home = few["site0"]
    snapshots.refresh(home, "t")
    run(home, "INSERT INTO t VALUES (1, 1)")
    schedules.schedule(home, "push", "hq", every="1h")
    monkeypatch.setattr(full, "PATIENCE", 0.3)
    with (
        all_taken(few["hq"]),
        pytest.raises(NoConnectionFree, match="too many clients already"),
        runs.outcome(home, "push", "hq"),
    ):
        deferred.push(home)
    [there] = deferred.list_destinations(home)
    assert (there.last_error, there.transactions) == (None, 1)
    # The next ones pause all the same, each for longer.
    assert there.retry_at is not None
    assert run(home, "SELECT last_error FROM snaptide.schedule") == [(None,)]
    assert deferred.push(home).transactions == 1


def test_connections_are_kept_until_they_are_unused(hq: Site) -> None:
    def used() -> set[int]:
        with ExitStack() as opened:
            each = [opened.enter_context(hq.session()) for _ in range(2)]
            return {one.scalar(text("SELECT pg_backend_pid()")) for one in each}

    first = used()
    hq.close_unused(60)
    assert used() == first
    with hq.session() as one:
        # It goes on, and is closed when it is returned.
        hq.close_unused(0)
        assert one.scalar(text("SELECT pg_backend_pid()")) in first
    assert not used() & first
