"""Sites of three masters follow what is done to a partitioned table of their group."""

from typing import Any

import pytest

import deferred
import groups
import masters
import snapshots
from groups.differences import differences
from masters.errors import DdlRefused
from sites import Directory, Site
from snapshots.errors import ColumnChanged
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import parked, run
from tests.stories import assert_equal_to_master

pytestmark = pytest.mark.usefixtures("spark")

MASTERS = ("hq", "lax", "bos")
COLUMNS = "id int PRIMARY KEY, qty int, note text"
PARTS = (
    f"CREATE TABLE parts ({COLUMNS}) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (50)",
)
HIGH = "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (50) TO (100)"
ROWS = "SELECT id, qty FROM public.parts ORDER BY id"


@prepared_once(*MASTERS, "jfk", "sfo", needs="spark")
def world(sites: Directory) -> None:
    """An updatable snapshot of hq, and one of bos; rows are at all masters."""
    for name in MASTERS:
        run(sites[name], *PARTS)
        masters.create_snapshot_log(sites[name], "parts")
    found_group(sites, *MASTERS, tables=["parts"])
    run(sites["hq"], "INSERT INTO parts VALUES (1, 1, 'a'), (2, 1, 'b')")
    push_all(of_group(sites))
    for name, master in (("jfk", "hq"), ("sfo", "bos")):
        snapshots.create(sites[name], "parts", master=master, updatable=True)
        snapshots.refresh(sites[name], "parts")


def of_group(sites: Directory) -> dict[str, Site]:
    return {name: sites[name] for name in MASTERS}


def settle(world: Directory) -> dict[str, list[str]]:
    """Bring all changes everywhere; by site, the method of its refresh."""
    methods = {}
    for _ in range(2):
        for name in ("jfk", "sfo"):
            report = snapshots.refresh(world[name], "parts")
            assert report.behind == ()
            methods[name] = [one.method for one in report.snapshots]
        push_all(of_group(world))
    return methods


def test_a_partition_that_comes_with_ddl_of_the_group_is_recorded_and_sent_on(
    world: Directory,
) -> None:
    """Statements on the partition itself, at one master and another, reach all."""
    hq = world["hq"]
    groups.suspend(hq, GROUP)
    groups.execute_ddl(hq, GROUP, HIGH)
    groups.resume(hq, GROUP)
    run(hq, "INSERT INTO high VALUES (60, 1, 'direct')")
    run(world["lax"], "INSERT INTO high VALUES (70, 1, 'direct')")
    push_all(of_group(world))
    run(world["bos"], "UPDATE high SET qty = 2 WHERE id = 60")
    run(world["jfk"], "INSERT INTO parts VALUES (80, 1, 'site')")
    settle(world)
    assert [parked(site) for site in of_group(world).values()] == [[], [], []]
    assert settle(world) == {"jfk": ["fast"], "sfo": ["fast"]}
    expected = [(1, 1), (2, 1), (60, 2), (70, 1), (80, 1)]
    at = {name: run(site, ROWS) for name, site in world.items()}
    assert at == dict.fromkeys(world, expected)
    for name in ("jfk", "sfo"):
        assert_equal_to_master(world[name])
    for site in of_group(world).values():
        assert differences(site, GROUP) == []
        assert masters.repair_snapshot_logs(site) == [
            masters.RepairedLog(table="parts", parts=())
        ]


def test_a_partition_that_one_master_makes_alone_is_recorded_and_told(
    world: Directory,
) -> None:
    """Its sites get what is written to it; that it is not sent on is no secret."""
    hq = world["hq"]
    for site in of_group(world).values():
        run(site, HIGH)
    run(hq, "INSERT INTO high VALUES (60, 1, 'direct')")
    run(hq, "INSERT INTO parts VALUES (70, 1, 'sent')")
    push_all(of_group(world))
    settle(world)
    assert run(world["jfk"], ROWS) == [(1, 1), (2, 1), (60, 1), (70, 1)]
    assert run(world["sfo"], ROWS) == [(1, 1), (2, 1), (70, 1)]
    [told] = [one.why for one in differences(hq, GROUP) if one.rows is None]
    assert "high" in told


def test_sites_of_all_masters_follow_with_what_they_have_queued(
    world: Directory,
) -> None:
    hq = world["hq"]
    run(world["jfk"], "UPDATE parts SET note = 'jfk' WHERE id = 1")
    run(world["sfo"], "UPDATE parts SET note = 'sfo' WHERE id = 2")
    changes: dict[str, Any] = {"and_sites": True}
    groups.execute_ddl(hq, GROUP, "ALTER TABLE parts ADD room int DEFAULT 3", **changes)
    groups.suspend(hq, GROUP)
    groups.execute_ddl(
        hq,
        GROUP,
        f"{HIGH}; ALTER TABLE parts RENAME note TO remark;"
        "ALTER TABLE parts ALTER qty TYPE bigint",
        **changes,
    )
    groups.resume(hq, GROUP)
    run(world["lax"], "INSERT INTO high VALUES (60, 5000000000, 'lax', 4)")
    push_all(of_group(world))
    settle(world)
    run(world["sfo"], "UPDATE parts SET qty = 6000000000, room = 9 WHERE id = 2")
    settle(world)
    for site in world.values():
        found = "SELECT id, qty, remark, room FROM public.parts ORDER BY id"
        assert run(site, found) == [
            (1, 1, "jfk", 3),
            (2, 6000000000, "sfo", 9),
            (60, 5000000000, "lax", 4),
        ]


def at_masters(world: Directory, statement: str) -> None:
    groups.suspend(world["hq"], GROUP)
    groups.execute_ddl(world["hq"], GROUP, statement)
    groups.resume(world["hq"], GROUP)


ALL = "SELECT id, qty, note FROM public.parts ORDER BY id"


def test_sites_stay_behind_a_narrower_type_and_push(world: Directory) -> None:
    """What the type does not hold is parked where it comes first, and sent nowhere."""
    narrower = "ALTER TABLE parts ALTER qty TYPE smallint"
    groups.suspend(world["hq"], GROUP)
    with pytest.raises(DdlRefused, match="does not hold all values"):
        groups.execute_ddl(world["hq"], GROUP, narrower, and_sites=True)
    groups.resume(world["hq"], GROUP)
    run(world["jfk"], "UPDATE parts SET note = 'jfk' WHERE id = 1")
    run(world["sfo"], "INSERT INTO parts VALUES (3, 3, 'sfo')")
    at_masters(world, narrower)
    run(world["sfo"], "UPDATE parts SET qty = 100000 WHERE id = 2")
    for name in ("jfk", "sfo"):
        with pytest.raises(ColumnChanged, match="qty is smallint at"):
            snapshots.refresh(world[name], "parts")
        deferred.push(world[name])
    push_all(of_group(world))
    expected = [(1, 1, "jfk"), (2, 1, "b"), (3, 3, "sfo")]
    for site in of_group(world).values():
        assert run(site, ALL) == expected
    assert [len(parked(site)) for site in of_group(world).values()] == [0, 0, 1]
    for name in ("jfk", "sfo"):
        snapshots.alter_columns(world[name], "parts", drop=["qty"], add=["qty"])
    settle(world)
    for name in ("jfk", "sfo"):
        assert_equal_to_master(world[name])
    assert run(world["jfk"], ALL) == expected


def test_sites_get_the_other_values_of_a_type(world: Directory) -> None:
    """A change of a row with another value is in conflict, and an insert is sent."""
    run(world["jfk"], "UPDATE parts SET note = 'jfk' WHERE id = 1")
    run(world["sfo"], "INSERT INTO parts VALUES (3, 3, 'sfo')")
    at_masters(world, "ALTER TABLE parts ALTER qty TYPE int USING qty * 10")
    run(world["lax"], "UPDATE parts SET note = 'lax' WHERE id = 2")
    settle(world)
    assert [len(parked(site)) for site in of_group(world).values()] == [1, 0, 0]
    run(world["sfo"], "UPDATE parts SET qty = 7 WHERE id = 3")
    settle(world)
    for site in world.values():
        assert run(site, ALL) == [(1, 10, "a"), (2, 10, "lax"), (3, 7, "sfo")]
    for name in ("jfk", "sfo"):
        assert_equal_to_master(world[name])
