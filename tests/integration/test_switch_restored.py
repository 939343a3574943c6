"""A master to which snapshots were switched is restored, and the former one is away."""

import pytest
from sqlalchemy.exc import OperationalError
from tenacity import retry, retry_if_exception_type, stop_after_delay

import deferred
import groups
import masters
import snapshots
from masters import rules
from sites import Directory
from snaptide.repair import repair
from tests.fix_db import Clone
from tests.fix_worlds import prepared_once
from tests.grouped import (
    assert_masters_equal,
    found_group,
    push_all,
    push_among,
    without,
)
from tests.linked_table import rows, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

MASTERS = ("hq", "lax", "bos")
ADD = "UPDATE orders SET qty = qty + {} WHERE id = 1"


@prepared_once(*MASTERS, "jfk")
def world(sites: Directory) -> None:
    """Three masters whose quantities add up, one row; a snapshot of hq."""
    found_group(sites, *MASTERS)
    for name in MASTERS:
        masters.create_snapshot_log(sites[name], "orders")
        rules.set_column_group(sites[name], "orders", "stock", ["qty"])
        rules.add_update_resolution(sites[name], "orders", "stock", "additive")
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 0)")
    push_among(sites, *MASTERS)
    snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
    refresh(sites["jfk"], "orders")


def urls_of(world: Directory) -> dict[str, str]:
    return {
        name: site.url.set(drivername="postgresql").render_as_string(
            hide_password=False
        )
        for name, site in world.items()
    }


def quantities(sites: Directory, *names: str) -> list[object]:
    return [rows(sites[name])[0][2] for name in names]


def test_what_it_had_from_the_former_master_is_sent_again(
    world: Directory, clone: Clone
) -> None:
    """It counts as delivered there, but the backup is older, and nobody else has it."""
    urls = urls_of(world)

    @retry(retry=retry_if_exception_type(OperationalError), stop=stop_after_delay(90))
    def copy(url: str) -> str:
        world.close()
        return clone(url.rpartition("/")[2], "lax")

    run(world["jfk"], ADD.format(1))
    push_all(world)
    backup = copy(urls["lax"])
    run(world["jfk"], ADD.format(10))
    push_all(world)
    with without(world, "hq") as left:
        assert groups.switch_master(left["jfk"], "orders", to="lax").settled == 2
        run(left["jfk"], ADD.format(100))
        push_among(left, "jfk", "lax", "bos")
        assert quantities(left, "lax", "bos") == [111, 111]
    restored = Directory(urls | {"lax": backup})
    try:
        with without(restored, "hq") as left:
            repair(left["lax"])
            run(left["jfk"], ADD.format(1000))
            push_among(left, "jfk", "lax", "bos")
            assert quantities(left, "lax", "bos") == [1111, 1111]
            assert deferred.list_errors(left["lax"]) == []
            snapshots.refresh(left["jfk"], "orders")
            assert quantities(left, "jfk") == [1111]
        push_all(restored)
        [row] = assert_masters_equal(restored, *MASTERS)
        assert row[2] == 1111
    finally:
        restored.close()
