"""A master lists in which shapes sites show its tables, and what waits for each."""

from pathlib import Path
from typing import Any

import pytest

import deferred
import snapshots
from masters.errors import NoSnapshotLog
from sites import Directory
from snapshots import Shape
from snaptide import migrate
from tests import airport
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk", "lga")
def sites(sites: Directory) -> None:
    """An updatable snapshot at one site, and one of few columns at another."""
    airport.found(sites["hq"], sites["jfk"])
    made: dict[str, Any] = {"master": "hq", "table": "orders", "updatable": True}
    snapshots.create(sites["lga"], "few", columns=["id", "airport", "first"], **made)
    snapshots.refresh(sites["lga"], "few")


def named(shape: Shape) -> list[tuple[str, str, int | None, int]]:
    return [(o.site, o.snapshot, o.waiting, o.parked) for o in shape.snapshots]


def test_sites_are_on_older_shapes_until_they_follow(
    sites: Directory, snaptide: Snaptide
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    few, whole = snapshots.list_shapes(hq, "orders")
    assert (few.number, whole.number) == (1, 2)
    assert (few.differs, whole.differs) == (
        ("last is not shown", "qty is not shown"),
        (),
    )
    assert named(whole) == [("jfk", "orders", 0, 0), ("jfk", "seen", None, 0)]

    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    run(jfk, "UPDATE public.orders SET qty = 9 WHERE id = 2")
    run(
        hq,
        "ALTER TABLE public.orders DROP last",
        "ALTER TABLE public.orders RENAME first TO given",
        "ALTER TABLE public.orders ADD gate text",
    )
    few, older, own = snapshots.list_shapes(hq)
    assert few.columns == ("id", "airport", "first")
    assert older.differs == (
        *("first is called given", "last is gone", "gate is not shown"),
    )
    assert named(older) == [("jfk", "orders", 2, 0), ("jfk", "seen", None, 0)]
    assert (own.number, own.differs, own.snapshots) == (3, (), ())
    deferred.push(jfk)
    _, older, _ = snapshots.list_shapes(hq)
    assert named(older)[0] == ("jfk", "orders", 0, 1)

    printed = snaptide.said("shape", "list", "hq", "orders")
    assert "first is called given" in " ".join(printed.split())
    found = snaptide.report("shape", "list", "hq")
    assert [len(one["snapshots"]) for one in found] == [1, 2, 0]

    wanted: dict[str, Any] = {"add": ["gate"], "drop": ["last"]}
    for name in ("orders", "seen"):
        snapshots.alter_columns(jfk, name, rename={"first": "given"}, **wanted)
    _, now = snapshots.list_shapes(hq)
    assert (now.columns, now.differs) == (("id", "airport", "given", "qty", "gate"), ())
    assert len(now.snapshots) == 2


def test_the_shape_of_a_site_that_is_away_is_not_known(sites: Directory) -> None:
    with without(sites, "jfk") as left:
        *_, away = snapshots.list_shapes(left["hq"], "orders")
    assert away.number is None
    assert [one.waiting for one in away.snapshots] == [None, None]
    assert all(one.why for one in away.snapshots)


def test_a_site_that_refuses_does_not_stop_the_others(sites: Directory) -> None:
    migrate.downgrade(sites["jfk"], "0073")
    *_, refusing = snapshots.list_shapes(sites["hq"], "orders")
    assert refusing.number is None
    assert all("site init jfk" in (one.why or "") for one in refusing.snapshots)


def test_an_image_is_no_site(sites: Directory, tmp_path: Path) -> None:
    before = snapshots.list_shapes(sites["hq"], "orders")
    snapshots.make_image(sites["hq"], tmp_path / "image", ["orders"])
    assert snapshots.list_shapes(sites["hq"], "orders") == before


def test_a_table_without_a_log_has_no_shapes(sites: Directory) -> None:
    with pytest.raises(NoSnapshotLog):
        snapshots.list_shapes(sites["hq"], "gone")


def test_a_table_that_is_gone_is_not_among_them(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, "CREATE TABLE public.gone (id int PRIMARY KEY)")
    log(hq, "gone")
    assert "gone" in {one.table for one in snapshots.list_shapes(hq)}
    run(hq, "DROP TABLE public.gone")
    assert {one.table for one in snapshots.list_shapes(hq)} == {"orders"}
