"""What a master table has otherwise than its snapshot, and that what is said helps."""

import shlex
from typing import Any

import pytest

import snapshots
from sites import Directory, Site
from snaptide.doctor import Severity, examine
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    """An updatable snapshot, and one to read with few of the columns."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.orders (id serial PRIMARY KEY, first text, last text,"
        " gone text, qty int, price numeric(8,2) DEFAULT 1, twice int)",
        "INSERT INTO public.orders (first, last, qty) VALUES ('a', 'b', 1)",
    )
    log(hq, "orders")
    made: dict[str, Any] = {"master": "hq", "group": "airport"}
    snapshots.create(jfk, "orders", updatable=True, **made)
    snapshots.create(
        jfk, "few", table="orders", columns=["id", "first", "last", "qty"], **made
    )
    snapshots.refresh(jfk, "airport")


def said(snaptide: Snaptide, *name: str) -> list[str]:
    """What differs, without what settles it."""
    found = snaptide.report("site", "diff", "jfk", *name)
    return [f"{one['snapshot']}: {one['what']} {one['differs']}" for one in found]


def test_nothing_is_different(snaptide: Snaptide) -> None:
    assert said(snaptide, "orders") == []
    assert snaptide.said("site", "diff", "jfk", "orders") == "Nothing is different.\n"
    assert said(snaptide) == [
        "few: column gone is at the master alone: text",
        "few: column price is at the master alone: numeric(8,2)",
        "few: column twice is at the master alone: integer",
    ]
    assert "SNP-221" in snaptide.said("site", "diff", "jfk", "none", code=1)


def test_what_is_said_settles_it(hq: Site, jfk: Site, snaptide: Snaptide) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine', qty = 2 WHERE id = 1")
    run(
        hq,
        "ALTER TABLE public.orders RENAME first TO between",
        "ALTER TABLE public.orders RENAME last TO first",
        "ALTER TABLE public.orders RENAME between TO last",
        'ALTER TABLE public.orders DROP gone, ADD "at gate" text,'
        " ALTER price SET DEFAULT 2, ALTER price SET NOT NULL,"
        " ALTER twice TYPE bigint, ADD UNIQUE (qty)",
        "CREATE INDEX lasts ON public.orders (last DESC) INCLUDE (qty)",
    )
    assert said(snaptide, "orders") == [
        "orders: column first is called last at the master",
        "orders: column last is called first at the master",
        "orders: column gone is gone at the master",
        "orders: column at gate is at the master alone: text",
        "orders: column price has the default 2 at the master, and 1 here",
        "orders: column price refuses NULL at the master, and takes it here",
        "orders: column twice is bigint at the master, and integer here",
        "orders: unique key orders_qty_key is at the master alone: (qty)",
        "orders: index lasts is at the master alone: btree (first, qty)",
    ]
    _settle(jfk, snaptide)
    assert said(snaptide) == []
    settle(jfk)
    assert run(hq, "SELECT last, qty FROM public.orders") == [("mine", 2)]
    assert_equal_to_master(jfk)
    assert [one for one in examine(jfk) if one.severity == Severity.ERROR] == []
    run(jfk, "INSERT INTO public.orders (qty, twice) VALUES (3, 5000000000)")
    settle(jfk)
    assert_equal_to_master(jfk)


def test_what_is_settled_is_as_the_master_has_it(
    hq: Site, jfk: Site, snaptide: Snaptide
) -> None:
    run(
        hq,
        'ALTER TABLE public.orders ADD "o\'clock" int,'
        " ADD CONSTRAINT late UNIQUE (qty) DEFERRABLE INITIALLY DEFERRED",
    )
    _settle(jfk, snaptide)
    assert run(
        jfk,
        "SELECT condeferrable, condeferred FROM pg_constraint"
        " WHERE conrelid = 'public.\"snap$_orders\"'::regclass AND contype = 'u'",
    ) == [(True, True)]
    assert said(snaptide) == []


def _settle(jfk: Site, snaptide: Snaptide) -> None:
    """Do what is said, one after the other, until nothing is."""
    while found := snaptide.report("site", "diff", "jfk"):
        todo = found[0]["todo"]
        if todo.startswith("snaptide "):
            snaptide.report(*shlex.split(todo)[1:])
            continue
        with jfk.engine.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            alone.exec_driver_sql(todo)
