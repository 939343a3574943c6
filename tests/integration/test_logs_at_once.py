"""Snapshot logs that are altered or dropped while others read what they record."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

import masters
import snapshots
from masters.errors import NoSnapshotLog, SnapshotLogInUse
from masters.log import log_function, registration, snapshot_log
from sites import Site
from snaptide import migrate
from tests.fix_moments import Moments
from tests.fix_worker import eventually
from tests.let_go import WAITS
from tests.linked_table import run

_FUNCTIONS = "SELECT proname FROM pg_proc WHERE starts_with(proname, 'mlog$')"


@pytest.fixture
def logged(hq: Site) -> Site:
    """A master with a log that records the values of a column."""
    run(hq, "CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
    masters.create_snapshot_log(hq, "t", partition_columns=["a"])
    return hq


def _during_an_upgrade(
    hq: Site, monkeypatch: pytest.MonkeyPatch, verb: Callable[[], Any]
) -> None:
    """Do something once an upgrade has read what a log records."""
    replace, begun = log_function.replace, list[Future[Any]]()

    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patch:

        def and_begin(*given: Any) -> Any:
            patch.setattr(log_function, "replace", replace)
            begun.append(pool.submit(verb))
            eventually(
                lambda: begun[0].done() or run(hq, WAITS),
                what="the other one: to wait, or to have done it",
            )
            return replace(*given)

        patch.setattr(log_function, "replace", and_begin)
        migrate.upgrade(hq)
        begun[0].result(timeout=60)


def test_an_upgrade_does_not_take_back_what_is_declared_meanwhile(
    logged: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    _during_an_upgrade(
        logged,
        monkeypatch,
        lambda: masters.alter_snapshot_log(logged, "t", partition_columns=["b"]),
    )
    run(logged, "INSERT INTO t VALUES (1, 2, 3)")
    recorded = 'SELECT k1, "p$b" = hashint8extended(3, 0) FROM snaptide.mlog$_t'
    assert run(logged, recorded) == [(1, True)]


def test_an_upgrade_leaves_nothing_of_a_log_that_is_dropped_meanwhile(
    logged: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    _during_an_upgrade(
        logged, monkeypatch, lambda: masters.drop_snapshot_log(logged, "t")
    )
    assert run(logged, _FUNCTIONS) == []


def test_the_log_of_another_table_is_made_while_one_is_rewritten(
    logged: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adding a ROWID to a large table takes long."""
    run(logged, "CREATE TABLE large (a int)", "CREATE TABLE small (id int PRIMARY KEY)")
    add = snapshot_log._add_rowid

    def add_and_make(*given: Any) -> None:
        add(*given)
        try:
            masters.create_snapshot_log(logged, "small")
            masters.alter_snapshot_log(logged, "t", partition_columns=["b"])
            masters.drop_snapshot_log(logged, "small")
        except OperationalError:
            pytest.fail("it waits for the other one")

    monkeypatch.setattr(snapshot_log, "_add_rowid", add_and_make)
    masters.create_snapshot_log(logged, "large", with_rowid=True)
    assert [one.table for one in masters.list_snapshot_logs(logged)] == ["large", "t"]


@pytest.mark.parametrize("what", ["a snapshot", "an image"])
def test_dropped_since_it_was_seen(
    logged: Site, jfk: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    keep = registration.keep_logs

    def keep_what_is_gone(*given: Any) -> None:
        masters.drop_snapshot_log(logged, "t")
        keep(*given)

    made: dict[str, Callable[[], Any]] = {
        "a snapshot": lambda: snapshots.create(jfk, "t", master="hq"),
        "an image": lambda: snapshots.make_image(logged, tmp_path / "image", ["t"]),
    }
    monkeypatch.setattr(registration, "keep_logs", keep_what_is_gone)
    with pytest.raises(NoSnapshotLog):
        made[what]()
    assert run(logged, "SELECT * FROM snaptide.registered_snapshot") == []
    assert snapshots.list_snapshots(jfk) == []


def test_dropped_while_a_snapshot_is_registered(
    logged: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    register, begun = registration.register, list[Future[None]]()
    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patch:

        def and_drop(*given: Any, **named: Any) -> None:
            register(*given, **named)
            begun.append(pool.submit(masters.drop_snapshot_log, logged, "t"))
            eventually(lambda: begun[0].done() or run(logged, WAITS))

        patch.setattr(registration, "register", and_drop)
        snapshots.create(jfk, "t", master="hq")
        with pytest.raises(SnapshotLogInUse):
            begun[0].result(timeout=60)
    snapshots.refresh(jfk, "t")


def test_a_log_that_is_dropped_gets_no_user_meanwhile(
    logged: Site, jfk: Site, moments: Moments, tmp_path: Path
) -> None:
    """Who drops it has found that nobody uses it."""
    users = [
        lambda: snapshots.make_image(logged, tmp_path / "image", ["t"]),
        lambda: snapshots.create(jfk, "t", master="hq"),
    ]
    begun = list[Future[object]]()
    with ThreadPoolExecutor(2) as pool:

        def use() -> None:
            begun.extend(map(pool.submit, users))
            both = f"SELECT count(*) = 2 FROM ({WAITS}) AS waiting"
            eventually(
                lambda: (
                    run(logged, both) == [(True,)] or all(one.done() for one in begun)
                ),
                what="both: to wait, or to be done",
            )

        moments.at("log_drop.before_commit", use)
        masters.drop_snapshot_log(logged, "t")
        done = [one.exception(timeout=60) for one in begun]
    assert [type(one) for one in done] == [NoSnapshotLog, NoSnapshotLog]
    assert run(logged, "TABLE snaptide.registered_snapshot") == []
