"""A snapshot that stays behind keeps all those with it that its condition asks."""

import pytest

import masters
import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.integration.test_followed_parents import make_shop
from tests.linked_table import run
from tests.stories import assert_equal_to_master

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """Three levels of conditions, and a table of its own."""
    make_shop(sites)
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        # Only conditions tie them together then.
        "ALTER TABLE payment DROP CONSTRAINT payment_rental_id_fkey",
        "ALTER TABLE rental DROP CONSTRAINT rental_customer_id_fkey",
        "CREATE TABLE note (id int PRIMARY KEY)",
        "INSERT INTO note VALUES (1)",
    )
    for child, key in (("payment", "rental_id"), ("rental", "customer_id")):
        run(
            jfk,
            f'ALTER TABLE "snap$_{child}" DROP CONSTRAINT {child}_{key}_fkey',
        )
    log(hq, "note")
    snapshots.create(jfk, "note", master="hq", group="shop")
    snapshots.refresh(jfk, "shop")


@pytest.mark.parametrize("renamed", ["customer.name", "rental.kind", "payment.amount"])
def test_conditions_hold_snapshots_together(hq, jfk, renamed):
    """Rows that moved at the master meanwhile move here with the others, as one."""
    before = {
        name: run(jfk, f"SELECT * FROM {name} ORDER BY 1")
        for name in ("customer", "rental", "payment")
    }
    table, column = renamed.split(".")
    run(hq, f"ALTER TABLE {table} RENAME {column} TO other")
    run(
        hq,
        "UPDATE customer SET store_id = 2 WHERE id = 1",
        "UPDATE customer SET store_id = 1 WHERE id = 2",
        "UPDATE rental SET customer_id = 4 WHERE id = 2",
        "INSERT INTO note VALUES (2)",
    )
    report = snapshots.refresh(jfk, "shop")
    assert {one.name for one in report.behind} == {"customer", "rental", "payment"}
    assert {one.name for one in report.snapshots} == {"note"}
    assert run(jfk, "SELECT id FROM note ORDER BY id") == [(1,), (2,)]
    for name, rows in before.items():
        assert run(jfk, f"SELECT * FROM {name} ORDER BY 1") == rows
    masters.purge_snapshot_logs(hq)
    run(hq, "UPDATE customer SET store_id = 2 WHERE id = 7")
    snapshots.refresh(jfk, "shop")
    run(hq, f"ALTER TABLE {table} RENAME other TO {column}")
    done = snapshots.refresh(jfk, "shop").snapshots
    assert {one.method for one in done} == {"fast"}
    assert_equal_to_master(jfk)
