"""What a site sends that refers to rows which it has and the master has not."""

import pytest

import deferred
import snapshots
from deferred.errors import PredecessorLost
from masters import rules
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import found_group, push_all
from tests.linked_table import as_refresh, link, parked, rows, run, run_each
from tests.stories import refresh

MADE = "INSERT INTO customer VALUES ('C', 'Theirs', 0)"


@prepared_once("hq", "jfk")
def shop(sites: Directory) -> None:
    """Customers and their orders; the master has a customer C of another site."""
    link(sites, "customer", "code text PRIMARY KEY, name text UNIQUE, v int")
    link(
        sites,
        "orders",
        "id int PRIMARY KEY, customer text REFERENCES customer (code),"
        " name text REFERENCES customer (name)",
    )
    for site in sites.values():
        as_refresh(site, "INSERT INTO customer VALUES ('A', 'Anu', 0)")
    as_refresh(sites["hq"], MADE)


def told(hq: Site) -> list[tuple[str, str]]:
    return [(error[1], error[2]) for error in parked(hq)]


LOST = ("dependant", PredecessorLost.code)


@pytest.mark.parametrize("how", ["dropped", "given up", "skipped"])
def test_what_comes_later_is_decided_about(shop: Directory, how: str) -> None:
    """Not attached to the customer of the other site, nor written over him."""
    hq, jfk = shop["hq"], shop["jfk"]
    if how == "dropped":
        rules.add_unique_resolution(hq, "customer", "customer_pkey", "discard")
    run(
        jfk,
        "INSERT INTO customer VALUES ('C', 'Mine', 0)",
        "INSERT INTO customer VALUES ('E', 'Enki', 0)",
    )
    deferred.push(jfk, error_action="skip_row" if how == "skipped" else "queue")
    if how != "dropped":
        assert deferred.delete_errors(hq) == 1
        as_refresh(
            hq, "INSERT INTO customer VALUES ('E', 'E', 0) ON CONFLICT DO NOTHING"
        )
    run_each(
        jfk,
        "INSERT INTO orders VALUES (1, 'C', NULL)",
        "INSERT INTO orders VALUES (2, 'A', 'Anu')",
        "UPDATE customer SET v = 1 WHERE code = 'C'",
        "UPDATE customer SET v = 1 WHERE code = 'A'",
        "UPDATE orders SET customer = 'C' WHERE id = 2",
    )
    deferred.push(jfk)
    assert told(hq) == [LOST] * 3
    assert rows(hq) == [(2, "A", "Anu")]
    assert rows(hq, "customer")[:2] == [("A", "Anu", 1), ("C", "Theirs", 0)]
    [first, *_] = (error[0] for error in parked(hq))
    assert deferred.retry_errors(hq, origin="jfk")[0].applied is False
    assert deferred.retry_errors(hq, [first])[0].applied
    assert rows(hq)[0] == (1, "C", None)


def test_what_was_left_out_with_a_row_is_lost_too(shop: Directory) -> None:
    hq, jfk = shop["hq"], shop["jfk"]
    rules.add_unique_resolution(hq, "customer", "customer_pkey", "discard")
    run(
        jfk,
        "INSERT INTO customer VALUES ('C', 'Mine', 0)",
        "INSERT INTO orders VALUES (1, 'C', NULL)",
    )
    deferred.push(jfk)
    as_refresh(hq, "INSERT INTO orders VALUES (1, 'A', NULL)")
    run(jfk, "UPDATE orders SET name = 'Anu' WHERE id = 1")
    deferred.push(jfk)
    assert told(hq) == [LOST]


def test_row_with_another_unique_value_is_there(shop: Directory) -> None:
    """Only what refers to that value is lost."""
    hq, jfk = shop["hq"], shop["jfk"]
    rules.add_unique_resolution(
        hq,
        "customer",
        "customer_name_key",
        "append_site_name",
        parameters={"column": "name"},
    )
    run(jfk, "INSERT INTO customer VALUES ('D', 'Theirs', 0)")
    deferred.push(jfk)
    run_each(
        jfk,
        "INSERT INTO orders VALUES (1, 'D', NULL)",
        "INSERT INTO orders VALUES (2, 'D', 'Theirs')",
    )
    deferred.push(jfk)
    assert told(hq) == [LOST]
    assert rows(hq) == [(1, "D", None)]
    assert rows(hq, "customer")[-1] == ("D", "Theirsjfk", 0)


def test_child_of_what_was_edited_later(shop: Directory) -> None:
    hq, jfk = shop["hq"], shop["jfk"]
    run(jfk, "INSERT INTO customer VALUES ('C', 'Mine', 0)")
    deferred.push(jfk)
    [error] = deferred.list_errors(hq)
    edits = [deferred.Edit.parse("customer.code=E")]
    assert deferred.retry_errors(hq, [error.id], edits=edits)[0].applied
    run(jfk, "INSERT INTO orders VALUES (1, 'C', NULL)")
    deferred.push(jfk)
    assert told(hq) == [LOST]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("how", ["dropped", "given up"])
def test_refresh_shows_the_other_row(sites: Directory, how: str) -> None:
    """From then on the site means that one; not as long as something waits."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.customer (code text PRIMARY KEY, v int)",
        "CREATE TABLE public.orders (id int PRIMARY KEY,"
        " customer text REFERENCES public.customer)",
    )
    for table in ("customer", "orders"):
        log(hq, table)
        snapshots.create(jfk, table, master="hq", updatable=True)
        refresh(jfk, table)
    if how == "dropped":
        rules.add_unique_resolution(hq, "customer", "customer_pkey", "discard")
    run(hq, "INSERT INTO public.customer VALUES ('C', 1)")
    run(jfk, "INSERT INTO public.customer VALUES ('C', 2)")
    deferred.push(jfk)
    if how == "given up":
        deferred.delete_errors(hq)
    refresh(jfk, "orders")
    run(jfk, "INSERT INTO public.orders VALUES (1, 'C')")
    deferred.push(jfk)
    assert told(hq) == [LOST]
    refresh(jfk, "customer")
    refresh(jfk, "orders")
    refresh(jfk, "customer")
    run(jfk, "INSERT INTO public.orders VALUES (2, 'C')")
    deferred.push(jfk)
    assert told(hq) == [LOST]
    assert rows(hq) == [(2, "C")]


@prepared_once("hq", "lax")
def masters(sites: Directory) -> None:
    """Two masters of a group, each of which drops what the other has made too."""
    found_group(sites, "hq", "lax")
    for site in sites.values():
        rules.add_unique_resolution(site, "orders", "orders_pkey", "discard")
        run(site, f"INSERT INTO orders VALUES (1, '{site.name}', 1)")
    push_all(sites)


def test_masters_of_a_group_keep_nothing(masters: Directory) -> None:
    """No refresh shows them anything; their rules decide which row is which."""
    for site in masters.values():
        assert [row[:2] for row in rows(site)] == [(1, site.name)]
        found = run(site, "SELECT count(*) FROM snaptide.error_footprint")
        assert found == [(0,)]
