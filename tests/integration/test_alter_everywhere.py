"""All sites of a master get the columns of a table in one command."""

from typing import Any

import pytest

import snapshots
from sites import Directory, Site
from snapshots import SiteColumns
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import run
from tests.stories import assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk", "lga", "bos", needs="spark")
def sites(sites: Directory) -> None:
    """Three sites with snapshots of one table, of which one has a part of it."""
    run(
        sites["hq"],
        "CREATE TABLE public.orders (id int PRIMARY KEY, first text, last text,"
        " qty int DEFAULT 1, old text)",
        "INSERT INTO public.orders VALUES (1, 'f1', 'l1', 1, 'o1')",
    )
    log(sites["hq"], "orders")
    made: dict[str, Any] = {"table": "orders", "master": "hq", "group": "all"}
    snapshots.create(sites["jfk"], "orders", updatable=True, **made)
    snapshots.create(sites["lga"], "mine", updatable=True, **made)
    few = ["id", "first"]
    snapshots.create(sites["bos"], "few", columns=few, **made)
    for name in ("jfk", "lga", "bos"):
        snapshots.refresh(sites[name], "all")


def states(found: list[SiteColumns]) -> dict[str, str]:
    return {one.site: f"{one.state} {one.code or ''}".strip() for one in found}


def test_some_sites_refuse_or_are_away_and_come_later(sites: Directory) -> None:
    hq, jfk, lga = sites["hq"], sites["jfk"], sites["lga"]
    run(jfk, "UPDATE public.orders SET qty = 2 WHERE id = 1")
    run(lga, "CREATE VIEW public.olds AS SELECT id, old FROM public.mine")
    run(
        hq,
        "ALTER TABLE public.orders ADD state text DEFAULT 'new', ALTER qty TYPE bigint",
    )
    wanted: dict[str, Any] = {
        "add": ["state"],
        "drop": ["old"],
        "widen": ["qty"],
    }
    with without(sites, "jfk") as left:
        found = snapshots.alter_columns_everywhere(left["hq"], "orders", **wanted)
    assert states(found) == {
        "bos": "done",
        "jfk": "away SNP-002",
        "lga": "refused SNP-021",
    }
    assert found[0].columns == ("id", "first", "state")
    run(lga, "DROP VIEW public.olds")
    found = snapshots.alter_columns_everywhere(hq, "orders", **wanted)
    assert states(found) == {"bos": "already", "jfk": "done", "lga": "done"}
    assert [one.snapshot for one in found] == ["few", "orders", "mine"]
    assert found[1].columns == ("id", "first", "last", "qty", "state")
    assert [one.pushed for one in found] == [0, 1, 0]
    found = snapshots.alter_columns_everywhere(hq, "orders", **wanted)
    assert set(states(found).values()) == {"already"}
    for site in (jfk, lga, sites["bos"]):
        settle(site)
        assert_equal_to_master(site)


def test_exchanged_names_are_exchanged_once(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "ALTER TABLE public.orders RENAME first TO between",
        "ALTER TABLE public.orders RENAME last TO first",
        "ALTER TABLE public.orders RENAME between TO last",
    )
    snapshots.alter_columns(sites["bos"], "few", rename={"first": "last"})
    swapped = {"first": "last", "last": "first"}
    for state in ("done", "already"):
        found = snapshots.alter_columns_everywhere(hq, "orders", rename=swapped)
        assert states(found) == {"bos": "already", "jfk": state, "lga": state}
    assert run(jfk, "SELECT first, last FROM public.orders") == [("l1", "f1")]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_column_that_takes_the_name_of_one_that_is_dropped(sites: Directory) -> None:
    """The second time, that name is the other column's, and is not dropped."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "ALTER TABLE public.orders DROP old",
        "ALTER TABLE public.orders RENAME last TO old",
        "ALTER TABLE public.orders ALTER qty TYPE text",
    )
    wanted: dict[str, Any] = {
        "drop": ["old", "qty"],
        "rename": {"last": "old"},
        "add": ["qty"],
    }
    for state in ("done", "already"):
        found = snapshots.alter_columns_everywhere(hq, "orders", **wanted)
        assert states(found) == {"bos": "done", "jfk": state, "lga": state} | (
            {"bos": "already"} if state == "already" else {}
        )
    for site in (jfk, sites["lga"], sites["bos"]):
        settle(site)
        assert_equal_to_master(site)
    assert run(jfk, "SELECT id, first, old, qty FROM public.orders") == [
        (1, "f1", "l1", "1")
    ]


def test_a_site_that_is_another_one_here(sites: Directory, jfk: Site) -> None:
    """Its database has the name that the master knows, and not the number."""
    run(sites["hq"], "ALTER TABLE public.orders ADD state text")
    run(
        sites["hq"],
        "UPDATE snaptide.registered_snapshot SET site_id = gen_random_uuid()"
        " WHERE site_name = 'jfk'",
        "UPDATE snaptide.registered_snapshot SET site_name = 'elsewhere'"
        " WHERE site_name = 'lga'",
    )
    found = snapshots.alter_columns_everywhere(sites["hq"], "orders", add=["state"])
    assert states(found) == {
        "bos": "done",
        "elsewhere": "away SNP-001",
        "jfk": "away SNP-001",
    }
    assert "state" not in snapshots.describe_snapshot(jfk, "orders").columns


def test_commands(sites: Directory, snaptide: Snaptide) -> None:
    alter = ["snapshot", "alter-all", "hq", "orders"]
    assert "Say which columns" in snaptide.said(*alter, code=2)
    run(sites["hq"], "ALTER TABLE public.orders ADD state text DEFAULT 'new'")
    run(sites["lga"], "CREATE VIEW public.olds AS SELECT id, old FROM public.mine")
    asked = [*alter, "--add-column", "state", "--drop-column", "old"]
    said = snaptide.said(*asked, code=1)
    assert "SNP-021" in said
    assert "refused" in said
    run(sites["lga"], "DROP VIEW public.olds")
    found = snaptide.report(*asked)
    assert {one["site"]: one["state"] for one in found} == {
        "bos": "already",
        "jfk": "already",
        "lga": "done",
    }
    run(sites["hq"], "UPDATE snaptide.registered_snapshot SET site_name = 'nowhere'")
    snaptide.said(*asked, code=4)
    run(sites["hq"], "DELETE FROM snaptide.registered_snapshot")
    assert "No snapshot of orders" in snaptide.said(*asked)
