"""Users' triggers that fire for what others have changed are named when it begins."""

from collections.abc import Callable

import pytest

import groups
import masters
import snapshots
from sites import Directory
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.linked_table import ORDERS, run

TRIGGERS = (
    (
        "CREATE FUNCTION public.nothing() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RETURN NEW; END'"
    ),
    (
        "CREATE TRIGGER stamp BEFORE UPDATE ON orders"
        " FOR EACH ROW EXECUTE FUNCTION nothing()"
    ),
    "CREATE TRIGGER audit AFTER INSERT ON orders EXECUTE FUNCTION nothing()",
    "CREATE TRIGGER off AFTER INSERT ON orders EXECUTE FUNCTION nothing()",
    "CREATE TRIGGER replica AFTER INSERT ON orders EXECUTE FUNCTION nothing()",
    "ALTER TABLE orders DISABLE TRIGGER off",
    "ALTER TABLE orders ENABLE ALWAYS TRIGGER audit",
    "ALTER TABLE orders ENABLE REPLICA TRIGGER replica",
)
NAMED = ("audit", "stamp")


@pytest.fixture
def orders(make_sites: Callable[..., Directory]) -> Directory:
    """Two masters with a table of orders, whose triggers fire, or do not."""
    sites = make_sites("hq", "lax", "jfk")
    for name in ("hq", "lax"):
        run(sites[name], f"CREATE TABLE orders ({ORDERS})", *TRIGGERS)
    return sites


def test_reports_name_them(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    assert masters.create_snapshot_log(hq, "orders").triggers == NAMED
    made = snapshots.create(jfk, "orders", master="hq", updatable=True)
    told = [one for one in made.left_out if "comes_from()" in one]
    assert [one.split()[1] for one in told] == [f"{name}:" for name in NAMED]
    groups.create_group(hq, "sales")
    groups.add_master(hq, "sales", "lax")
    added = groups.add_table(hq, "sales", "orders")
    assert added.triggers == {"hq": NAMED, "lax": NAMED}
    assert [str(table) for table in added.tables] == ["orders"]


def test_commands_say_what_to_do(
    orders: Directory, write_settings: WriteSettings
) -> None:
    snaptide = Snaptide(write_settings(orders))
    for words in (
        "log create hq orders",
        "snapshot create jfk orders --master hq --updatable",
        "group create hq sales",
        "group add-table hq sales orders",
    ):
        told = " ".join(snaptide.said(*words.split()).split())
        assert ("comes_from()" in told) is not words.startswith("group create")
