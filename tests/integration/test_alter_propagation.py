"""What a master lacks for synchronous propagation is said at the switch."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from psycopg.errors import ObjectNotInPrerequisiteState

import masters
import snapshots
from sites import Directory
from sites.errors import OlderSchema
from snapshots.creating import propagation
from snapshots.definitions.errors import CannotPropagate
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_db import TEST_SETTINGS
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.let_go import WAITS
from tests.linked_table import run
from tests.stories import refresh


@pytest.fixture
def unprepared(pg_version: int) -> Iterator[Directory]:
    """Two sites on a server as PostgreSQL comes: it prepares no transactions."""
    settings = {**TEST_SETTINGS, "max_prepared_transactions": "0"}
    with TemporaryDirectory(prefix="snaptide-pg-") as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(Path(folder) / "data", pg_version, settings=settings)
        server.start()
        sites = Directory(
            {name: server.create_database(name) for name in ("hq", "jfk")}
        )
        for site in sites.values():
            migrate.upgrade(site)
        yield sites
        sites.close()
        server.stop()


def test_a_master_that_prepares_nothing_is_refused(unprepared: Directory) -> None:
    hq, jfk = unprepared["hq"], unprepared["jfk"]
    run(hq, "CREATE TABLE flights (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "flights")
    snapshots.create(jfk, "flights", master="hq", updatable=True)

    with pytest.raises(CannotPropagate, match="max_prepared_transactions = 0"):
        snapshots.alter_propagation(jfk, "flights", synchronous=True)

    assert not snapshots.describe_snapshot(jfk, "flights").synchronous


def test_a_master_of_another_version_is_refused(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE flights (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "flights")
    snapshots.create(jfk, "flights", master="hq", updatable=True)

    with monkeypatch.context() as patch:
        patch.setattr(propagation, "OLDEST_VERSION", 990000)
        with pytest.raises(CannotPropagate, match="hq is PostgreSQL"):
            snapshots.alter_propagation(jfk, "flights", synchronous=True)
    run(hq, "UPDATE snaptide.alembic_version SET version_num = '0001'")
    with pytest.raises(OlderSchema, match="hq is at 0001"):
        snapshots.alter_propagation(jfk, "flights", synchronous=True)

    assert not snapshots.describe_snapshot(jfk, "flights").synchronous


@pytest.mark.usefixtures("spark")
def test_a_queue_that_is_made_meanwhile_follows(
    sites: Directory, moments: Moments
) -> None:
    """A first load makes it: else users went on without the master, unnoticed."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.flights (id int PRIMARY KEY)")
    log(hq, "flights")
    snapshots.create(jfk, "flights", master="hq", updatable=True)
    altered: list[Future[object]] = []

    with ThreadPoolExecutor(1) as pool:

        def alter() -> None:
            altered.append(
                pool.submit(
                    snapshots.alter_propagation, jfk, "flights", synchronous=True
                )
            )
            eventually(lambda: run(jfk, WAITS), what="the other one: to wait")

        moments.at("refresh.before_merge_commit", alter)
        refresh(jfk, "flights")
        altered[0].result(timeout=60)
    assert snapshots.describe_snapshot(jfk, "flights").synchronous
    with pytest.raises(ObjectNotInPrerequisiteState):
        run(jfk, "INSERT INTO flights VALUES (1)")
