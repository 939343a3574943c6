"""Columns are added at all masters while users go on, and nobody meets half of it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import deferred
import groups
import masters
import snapshots
from deferred.errors import OtherSchemaVersion, TooWide
from deferred.pushing import batch_by_batch
from deferred.pushing.push import destinations
from groups.errors import NotQuiesced, TablesDiffer
from sites import Directory, Site
from sites.tables import locks
from snapshots.errors import ColumnChanged, MasterBehind
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    broken_off_at,
    found_group,
    push_all,
)
from tests.linked_table import run
from tests.stories import refresh

GATE = "ALTER TABLE orders ADD gate text NOT NULL DEFAULT 'none', ADD seats int"
NAMES = ("hq", "lax", "bos")


@prepared_once(*NAMES, "jfk")
def three(sites: Directory) -> None:
    """Three masters of a group, each of which sends to the others."""
    found_group(sites, *NAMES)


def test_what_waits_has_the_defaults_of_new_columns(three: Directory) -> None:
    run(three["hq"], "INSERT INTO orders (id) VALUES (1), (2), (3)")
    deferred.push(three["hq"], "lax")
    run(three["lax"], "UPDATE orders SET qty = 1 WHERE id = 1")
    run(three["hq"], "DELETE FROM orders WHERE id = 3")
    assert groups.execute_ddl(three["hq"], GROUP, GATE).schema_version == 2
    run(three["lax"], "UPDATE orders SET gate = 'A7' WHERE id = 2")
    run(three["hq"], "INSERT INTO orders (id, gate, seats) VALUES (4, 'B2', 9)")
    run(three["bos"], "INSERT INTO orders (id) VALUES (5)")
    push_all(three)
    rows = assert_masters_equal(three, *NAMES)
    assert [(row[0], *row[-2:]) for row in rows] == [
        (1, "none", None),
        (2, "A7", None),
        (4, "B2", 9),
        (5, "none", None),
    ]


def test_users_write_and_push_while_columns_come(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each uses a column as soon as his master has it, and its value arrives."""
    # Where the machine is slow, all of them come again for longer.
    monkeypatch.setattr(batch_by_batch, "PAUSES", (0.1,) * 900)
    monkeypatch.setattr(locks, "ATTEMPTS", 300)
    over = threading.Event()

    def write(name: str, place: int, begun: threading.Event) -> set[int]:
        marked, key = set[int](), place
        while not over.is_set() or len(marked) < 5:
            key += 10
            assert key < 100_000, "the column has not come"
            try:
                run(three[name], f"INSERT INTO orders (id, seats) VALUES ({key}, 7)")
                marked.add(key)
            except psycopg.errors.UndefinedColumn:
                run(three[name], f"INSERT INTO orders (id) VALUES ({key})")
                begun.set()
        return marked

    def carry(name: str) -> None:
        while not over.is_set():
            for to in destinations(three[name]):
                deferred.push(three[name], to)

    with ThreadPoolExecutor() as pool:
        begun = [threading.Event() for _ in NAMES]
        writers = [
            pool.submit(write, name, place, begun[place])
            for place, name in enumerate(NAMES)
        ]
        pushers = [pool.submit(carry, name) for name in NAMES]
        try:
            assert all(one.wait(timeout=90) for one in begun)
            groups.execute_ddl(three["hq"], GROUP, GATE)
        finally:
            over.set()
        marked = set[int]().union(*(one.result() for one in writers))
        for one in pushers:
            one.result()
    push_all(three)
    rows = assert_masters_equal(three, *NAMES)
    assert {row[0] for row in rows if row[-1] == 7} == marked


def test_push_stops_where_one_side_lacks_the_columns(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definition site has committed; the others are only prepared."""
    monkeypatch.setattr(batch_by_batch, "PAUSES", (0.01,))
    run(three["lax"], "INSERT INTO orders (id) VALUES (1)")
    with broken_off_at("group.after_decision"):
        groups.execute_ddl(three["hq"], GROUP, GATE)
    run(three["hq"], "INSERT INTO orders (id, gate) VALUES (2, 'A7')")
    with pytest.raises(OtherSchemaVersion, match="lax is behind") as caught:
        deferred.push(three["hq"], "lax")
    assert caught.value.facts["behind"] == "lax"
    groups.show_group(three["hq"], GROUP)  # ends what is prepared
    push_all(three)
    assert len(assert_masters_equal(three, *NAMES)) == 2


def test_open_group_takes_no_other_ddl(three: Directory) -> None:
    with pytest.raises(NotQuiesced, match="more than add columns"):
        groups.execute_ddl(three["hq"], GROUP, f"{GATE}; DROP TABLE IF EXISTS gates")
    columns = ", ".join(f"c{n} text" for n in range(160))
    for name in NAMES:
        run(three[name], f"CREATE TABLE wide (id int PRIMARY KEY, {columns})")
    groups.add_table(three["hq"], GROUP, "wide")
    more = ", ".join(f"ADD d{n} text" for n in range(10))
    with pytest.raises(TooWide):
        groups.execute_ddl(three["hq"], GROUP, f"ALTER TABLE wide {more}")
    assert groups.show_group(three["hq"], GROUP).version == 5


def test_master_without_the_columns_does_not_pass_for_new(three: Directory) -> None:
    """One that was restored to before them is refused until it has them."""
    groups.execute_ddl(three["hq"], GROUP, GATE)
    run(
        three["bos"],
        "UPDATE snaptide.replication_group SET schema_version = 1",
        "UPDATE snaptide.group_schema SET version = 1",
        'DROP VIEW snaptide."group$_orders"',
        "ALTER TABLE orders DROP gate, DROP seats",
        "UPDATE snaptide.queue SET columns = columns[:5],"
        " column_numbers = column_numbers[:5]",
    )
    with pytest.raises(TablesDiffer, match="orders at bos"):
        groups.suspend(three["hq"], GROUP)
    run(three["bos"], GATE)
    groups.suspend(three["hq"], GROUP)
    assert version(three["bos"]) == version(three["hq"]) == 2


def test_definition_site_without_the_columns_takes_the_version_of_the_others(
    three: Directory,
) -> None:
    """Restored to before them, and repaired; snapshots may have seen the version."""
    groups.execute_ddl(three["hq"], GROUP, GATE)
    run(
        three["hq"],
        "UPDATE snaptide.replication_group SET schema_version = 1",
        "UPDATE snaptide.group_schema SET version = 1",
    )
    groups.suspend(three["hq"], GROUP)
    assert [version(three[name]) for name in NAMES] == [2, 2, 2]
    run(three["hq"], "UPDATE snaptide.replication_group SET schema_version = 1")
    groups.execute_ddl(three["hq"], GROUP, "ALTER TABLE orders ADD wing text")
    assert [version(three[name]) for name in NAMES] == [3, 3, 3]


@pytest.mark.usefixtures("spark")
def test_versions_of_another_group_say_nothing(three: Directory) -> None:
    home, site = three["hq"], three["jfk"]
    masters.create_snapshot_log(home, "orders")
    snapshots.create(site, "orders", master="hq")
    groups.execute_ddl(home, GROUP, GATE)
    refresh(site, "orders")
    groups.drop_group(home, GROUP)
    found_group(three, *NAMES)
    assert version(home) == 1
    run(home, "INSERT INTO orders (id, qty) VALUES (1, 1)")
    refresh(site, "orders")
    assert run(site, "SELECT qty FROM orders") == [(1,)]
    push_all(three)
    groups.drop_group(home, GROUP)
    for name in NAMES:
        run(three[name], "ALTER TABLE orders ALTER qty TYPE bigint")
    found_group(three, *NAMES)
    assert version(home) == 1
    with pytest.raises(ColumnChanged, match="qty is bigint at hq"):
        refresh(site, "orders")


@pytest.mark.usefixtures("spark")
def test_refresh_checks_the_schema_version(three: Directory) -> None:
    home, site = three["hq"], three["jfk"]
    masters.create_snapshot_log(home, "orders")
    snapshots.create(site, "orders", master="hq")
    run(home, "INSERT INTO orders (id, qty) VALUES (1, 1)")
    refresh(site, "orders")
    groups.execute_ddl(home, GROUP, GATE)
    refresh(site, "orders")  # columns that were added do not concern it
    run(home, "UPDATE snaptide.group_schema SET version = 1")
    with pytest.raises(MasterBehind, match="hq is behind"):
        refresh(site, "orders")
    run(home, "UPDATE snaptide.group_schema SET version = 2")
    refresh(site, "orders")
    groups.suspend(home, GROUP)
    groups.execute_ddl(home, GROUP, "ALTER TABLE orders ALTER qty TYPE bigint")
    groups.resume(home, GROUP)
    with pytest.raises(ColumnChanged, match="qty is bigint at hq"):
        refresh(site, "orders")


def version(site: Site) -> int:
    """The schema version of the group at a master."""
    [[found]] = run(site, "SELECT DISTINCT version FROM snaptide.group_schema")
    return int(found)
