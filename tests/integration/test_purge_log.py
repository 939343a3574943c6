"""Snapshot logs are emptied of what every snapshot has, never in a user's way."""

import threading
import uuid
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

import masters
from masters.log import catalog as log_catalog
from masters.log import registration, ring
from masters.log.ring import SLOT_SHIFT
from sites import Directory, Site, faults
from sites.capture import position
from sites.names import QualifiedName
from tests.at_point import AtPoint
from tests.linked_table import ORDERS, application, run

FAST, SLOW = uuid.uuid4(), uuid.uuid4()
COUNT = 'SELECT count(*) FROM snaptide."mlog$_orders"'


@pytest.fixture
def hq(sites: Directory) -> Site:
    """A master table with a log, and two snapshots that have nothing yet."""
    site = sites["hq"]
    run(site, f"CREATE TABLE orders ({ORDERS})")
    masters.create_snapshot_log(site, "orders")
    for site_id in (FAST, SLOW):
        _register(site, site_id)
    return site


def test_log_is_kept_for_the_slowest_snapshot(hq: Site) -> None:
    _refreshed(hq, FAST, SLOW)
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    _refreshed(hq, FAST)
    [report] = masters.purge_snapshot_logs(hq)
    assert (report.emptied, report.busy) == (0, 0)
    assert _logged(hq) == 1
    _refreshed(hq, SLOW)
    [report] = masters.purge_snapshot_logs(hq)
    assert report.emptied == 1
    assert _logged(hq) == 0


def test_a14_8_log_row_stays_until_the_last_snapshot_has_it(hq: Site) -> None:
    _refreshed(hq, FAST, SLOW)
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    for site_id, left in ((FAST, 1), (SLOW, 0)):
        _refreshed(hq, site_id)
        masters.purge_snapshot_logs(hq)
        assert _logged(hq) == left


@pytest.mark.parametrize("again", [False, True], ids=["gone", "another"])
def test_a_log_that_is_dropped_meanwhile(
    hq: Site, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """The other logs are purged; one that was created anew keeps what it has."""
    run(hq, "CREATE TABLE parts (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "parts")
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    run(hq, "INSERT INTO parts VALUES (1)")
    _refreshed(hq, FAST, SLOW)

    def drop() -> None:
        masters.drop_snapshot_log(hq, "orders", force=True)
        if again:
            masters.create_snapshot_log(hq, "orders")
            run(hq, "INSERT INTO orders (id) VALUES (2)")

    at = AtPoint("log_purge.after_look", drop)
    monkeypatch.setattr(faults, "point", at.point)
    reports = masters.purge_snapshot_logs(hq)
    assert at.reached
    assert [(one.table, one.emptied, one.busy) for one in reports] == [("parts", 1, 0)]
    if again:
        assert _logged(hq) == 1


def test_dropped_snapshot_holds_nothing_back(hq: Site) -> None:
    _refreshed(hq, FAST, SLOW)
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    _refreshed(hq, FAST)
    with hq.transaction() as connection:
        registration.unregister(connection, SLOW, ["orders"])
    masters.purge_snapshot_logs(hq)
    assert _logged(hq) == 0


def test_open_transaction_keeps_its_rows_and_those_beside(hq: Site) -> None:
    writer = application(hq)
    writer.execute("INSERT INTO orders (id) VALUES (1)")
    run(hq, "INSERT INTO orders (id) VALUES (2)")
    _refreshed(hq, FAST, SLOW)
    masters.purge_snapshot_logs(hq)
    assert _logged(hq) == 1
    writer.commit()
    writer.close()
    masters.purge_snapshot_logs(hq)
    assert _logged(hq) == 2
    _refreshed(hq, FAST, SLOW)
    masters.purge_snapshot_logs(hq)
    assert _logged(hq) == 0


def test_open_transaction_that_wrote_elsewhere_keeps_rows_too(hq: Site) -> None:
    """A reader that began before may still ask for them."""
    other = application(hq)
    other.execute("SELECT pg_current_xact_id()")
    run(hq, "INSERT INTO orders (id) VALUES (2)")
    _refreshed(hq, FAST, SLOW)
    masters.purge_snapshot_logs(hq)
    assert _logged(hq) == 1
    other.rollback()
    other.close()


def test_writer_waits_no_longer_than_the_timeout(hq: Site) -> None:
    """One writer sits on the partition; another comes while purge waits for it."""
    run(hq, "INSERT INTO orders (id) SELECT g FROM generate_series(1, 5) g")
    _refreshed(hq, FAST, SLOW)
    sitting = application(hq)
    _lock_slots(sitting)
    purge = threading.Thread(target=masters.purge_snapshot_logs, args=[hq])
    purge.start()
    with application(hq) as writer:
        # Behind a purge that waits for the one who sits, it would wait as long.
        writer.execute("SET lock_timeout = '60s'")
        for number in range(100, 160):
            writer.execute("INSERT INTO orders (id) VALUES (%s)", [number])
            writer.commit()
    purge.join()
    sitting.rollback()
    sitting.close()
    assert _logged(hq) == 65


def test_busy_partition_is_left_for_later(hq: Site) -> None:
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    _refreshed(hq, FAST, SLOW)
    sitting = application(hq)
    _lock_slots(sitting)
    [report] = masters.purge_snapshot_logs(hq)
    assert (report.emptied, report.busy) == (0, 1)
    assert _logged(hq) == 1
    sitting.rollback()
    sitting.close()
    [report] = masters.purge_snapshot_logs(hq)
    assert (report.emptied, report.busy) == (1, 0)


def test_row_written_while_purge_waits_is_not_lost(
    hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at first, the partition is full of old rows; locked, it is not."""
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    _refreshed(hq, FAST, SLOW)
    original: Callable[..., list[int]] = ring.full_slots

    def look_and_let_write(*args: object) -> list[int]:
        slots = original(*args)
        run(hq, "INSERT INTO orders (id) VALUES (2)")
        return slots

    monkeypatch.setattr(ring, "full_slots", look_and_let_write)
    masters.purge_snapshot_logs(hq)
    assert _logged(hq) == 2


def test_log_reaches_back_to_what_is_not_purged(hq: Site) -> None:
    before = _position(hq)
    assert _reaches(hq, before)
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    assert _reaches(hq, before)
    _refreshed(hq, FAST, SLOW)
    after = _position(hq)
    masters.purge_snapshot_logs(hq)
    assert not _reaches(hq, before)
    assert _reaches(hq, after)


def test_log_does_not_reach_back_before_it_was_made(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, f"CREATE TABLE orders ({ORDERS})")
    before = _position(hq)
    open_then = application(hq)
    open_then.execute("INSERT INTO orders (id) VALUES (1)")
    while_open = _position(hq)
    open_then.commit()
    open_then.close()
    masters.create_snapshot_log(hq, "orders")
    assert not _reaches(hq, before)
    assert not _reaches(hq, while_open)
    assert _reaches(hq, _position(hq))


def test_old_rows_are_in_other_partitions_than_new_ones(hq: Site) -> None:
    """A transaction's rows go where its id says, a ring of eight."""
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    [(slot, xid)] = run(hq, 'SELECT slot, xid::text FROM snaptide."mlog$_orders"')
    assert slot == (int(xid) >> SLOT_SHIFT) % 8


def test_truncate_leaves_a_mark(hq: Site) -> None:
    run(hq, "INSERT INTO orders (id) VALUES (1)", "TRUNCATE orders")
    assert run(hq, 'SELECT kind, k1 FROM snaptide."mlog$_orders"') == [
        ("I", 1),
        ("T", None),
    ]


def _lock_slots(session: psycopg.Connection[tuple[object, ...]]) -> None:
    """Hold all partitions as a writer does."""
    for slot in range(8):
        name = sql.Identifier("snaptide", f"mlog$_orders~{slot}")
        session.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(name))


def _register(site: Site, site_id: uuid.UUID) -> None:
    with site.transaction() as connection:
        registration.register(
            connection,
            site_id=site_id,
            site_name="jfk",
            snapshot="orders",
            table=QualifiedName("public", "orders"),
            parents=[],
            updatable=False,
        )
    _refreshed(site, site_id)


def _refreshed(site: Site, *site_ids: uuid.UUID) -> None:
    for site_id in site_ids:
        with site.transaction() as connection:
            now = position.current(connection)
            registration.advance(connection, site_id, ["orders"], now)


def _position(site: Site) -> str:
    with site.transaction() as connection:
        return position.current(connection)


def _reaches(site: Site, since: str) -> bool:
    with site.transaction() as connection:
        table = QualifiedName("public", "orders")
        return bool(log_catalog.logs_since(connection, [table], since)[table].reaches)


def _logged(site: Site) -> int:
    return int(run(site, COUNT)[0][0])
