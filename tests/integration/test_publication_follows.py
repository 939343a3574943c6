"""Publications whose rows follow those of their parents, read and changed by sites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from snapshots.definitions.errors import BeyondGrant
from snapshots.differences import comparison
from snaptide.embedded import PostgresServer
from tests.fix_worlds import prepared_once
from tests.granted import (
    as_login,
    every,
    families,
    grant_families,
    ids,
    let_in,
    login,
    of_store,
    rent,
)
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def store(sites: Directory, server: PostgresServer) -> Iterator[str]:
    """Customers of two stores with rentals and payments, and the login of jfk."""
    families(sites["hq"])
    with login(server, sites["hq"]) as name:
        yield name


@prepared_once("hq", "jfk", needs="spark")
def rented(sites: Directory) -> None:
    rent(sites)


@pytest.fixture
def granted(rented: Directory) -> Iterator[Site]:
    """The site jfk, which may change what belongs to store 3, with snapshots of it."""
    with let_in(rented) as jfk:
        yield jfk


def test_rows_follow_their_parents(rented: Directory, granted: Site) -> None:
    hq = rented["hq"]
    assert every(granted) == of_store(hq) == [[2, 4], [21, 22, 41], [211, 221, 411]]
    for statements in (
        ["UPDATE public.customer SET store_id = 4 WHERE id = 2"],
        ["UPDATE public.customer SET store_id = 3 WHERE id IN (1, 2)"],
        # Changed, and gone with the parent.
        [
            "UPDATE public.payment SET amount = 9 WHERE id = 211",
            "DELETE FROM public.payment WHERE id = 221",
            "UPDATE public.customer SET store_id = 4 WHERE id = 2",
        ],
        # From a parent of the site to one that it does not have, and back.
        ["UPDATE public.rental SET customer_id = 3 WHERE id = 41"],
        [
            "UPDATE public.rental SET customer_id = 4 WHERE id = 41",
            "UPDATE public.payment SET rental_id = 41 WHERE id = 211",
        ],
        [
            "UPDATE public.payment SET rental_id = 31 WHERE id = 211",
            "INSERT INTO public.payment VALUES (412, 41, 1), (312, 31, 1)",
        ],
        [
            "DELETE FROM public.payment WHERE rental_id = 11",
            "DELETE FROM public.rental WHERE id = 11",
            "DELETE FROM public.customer WHERE id = 1",
        ],
    ):
        run(hq, *statements)
        reports = refresh(granted, "shop")
        assert every(granted) == of_store(hq), statements
        assert {one.method for one in reports.values()} == {"fast"}


@pytest.fixture
def shelves(sites: Directory, server: PostgresServer) -> Iterator[Site]:
    """Things that came from one shelf to another; jfk has those that are in store 3."""
    hq = sites["hq"]
    run(
        hq,
        "CREATE TABLE public.shelf (store int, no int, what text,"
        " PRIMARY KEY (store, no))",
        "CREATE TABLE public.thing (id int PRIMARY KEY, store int, no int,"
        " old_store int, old_no int, what text,"
        " CONSTRAINT now_at FOREIGN KEY (store, no) REFERENCES shelf,"
        " FOREIGN KEY (old_store, old_no) REFERENCES shelf)",
        "INSERT INTO shelf SELECT s, n, 'x' FROM generate_series(3, 4) s,"
        " generate_series(1, 3) n",
        "INSERT INTO thing VALUES (1, 3, 1, 4, 1), (2, 4, 2, 3, 2), (3, 3, NULL, 3, 1),"
        " (4, NULL, NULL, 3, 1), (5, 4, 1, 4, 1), (6, 3, 3, 3, 2)",
    )
    masters.create_snapshot_log(hq, "shelf")
    masters.create_snapshot_log(hq, "thing", partition_columns=["store", "no"])
    with login(server, hq) as name:
        run(hq, f'GRANT TEMPORARY ON DATABASE "{hq.url.database}" TO {name}')
        masters.create_publication(
            hq,
            "shelves",
            ["shelf", "thing"],
            where={"shelf": "store = :store", "thing": "follows now_at"},
        )
        masters.grant(
            hq,
            "shelves",
            "jfk",
            login=name,
            parameters={"store": "3"},
            updatable=True,
        )
        with as_login(sites, name) as directory:
            yield directory["jfk"]


def test_one_of_two_references_of_two_columns(sites: Directory, shelves: Site) -> None:
    hq = sites["hq"]
    for table, follow in (("shelf", ()), ("thing", ("now_at",))):
        snapshots.create(
            shelves, table, master="hq", group="shop", follow=follow, updatable=True
        )
    refresh(shelves, "shop")
    mine = "SELECT id FROM public.thing WHERE store = 3 AND no IS NOT NULL ORDER BY 1"
    assert ids(shelves, "thing") == [1, 6]
    for statement in (
        "UPDATE thing SET store = 3 WHERE id IN (2, 5)",
        "UPDATE thing SET store = NULL WHERE id = 6",
        "UPDATE thing SET no = 2 WHERE id = 3",
        "UPDATE thing SET old_store = 3, old_no = 3 WHERE id = 4",
        "UPDATE thing SET store = 4, no = 3 WHERE id = 1",
    ):
        run(hq, statement)
        reports = refresh(shelves, "shop")
        assert ids(shelves, "thing") == [x for (x,) in run(hq, mine)], statement
        assert {one.method for one in reports.values()} == {"fast"}
    run(shelves, "UPDATE thing SET what = 'mine' WHERE id = 3")
    run(shelves, "UPDATE thing SET no = 1, what = 'mine' WHERE id = 2")
    report = deferred.push(shelves)
    assert (report.transactions, report.errors) == (2, 0)
    assert run(hq, "SELECT id, no FROM thing WHERE what = 'mine' ORDER BY 1") == [
        (2, 1),
        (3, 2),
    ]


def test_rows_changed_at_the_site_leave_with_what_they_follow(
    rented: Directory, granted: Site
) -> None:
    """At the site, rental 21 has another customer than at the master, which is gone."""
    hq = rented["hq"]
    run(granted, "UPDATE public.rental SET customer_id = 4 WHERE id = 21")
    run(hq, "UPDATE public.customer SET store_id = 4 WHERE id = 2")
    refresh(granted, "shop", push_deferred_rpc=False)
    deferred.push(granted)
    refresh(granted, "shop")
    refresh(granted, "shop")
    assert every(granted) == of_store(hq) == [[4], [41], [411]]


def test_pushes_keep_to_rows_whose_parents_are_granted(
    rented: Directory, granted: Site
) -> None:
    hq = rented["hq"]
    run(
        granted,
        "INSERT INTO public.customer VALUES (6, 3)",
        "INSERT INTO public.rental VALUES (61, 6, 'new')",
        "INSERT INTO public.payment VALUES (611, 61, 5)",
        "UPDATE public.rental SET customer_id = 6 WHERE id = 21",
    )
    run(granted, "UPDATE public.payment SET amount = 7 WHERE id = 411")
    run(granted, "DELETE FROM public.payment WHERE id = 221")
    report = deferred.push(granted)
    assert (report.transactions, report.errors) == (3, 0)
    assert of_store(hq) == [[2, 4, 6], [21, 22, 41, 61], [211, 411, 611]]
    refresh(granted, "shop")
    assert every(granted) == of_store(hq)


def test_rows_of_parents_that_are_not_granted_are_parked(
    rented: Directory, granted: Site
) -> None:
    """They are when the customer has gone, which the site does not know yet."""
    hq = rented["hq"]
    run(hq, "UPDATE public.customer SET store_id = 4 WHERE id = 2")
    run(granted, "INSERT INTO public.rental VALUES (23, 2, 'new')")
    run(
        granted,
        "INSERT INTO public.customer VALUES (6, 3)",
        "UPDATE public.rental SET customer_id = 6 WHERE id = 41",
        "INSERT INTO public.payment VALUES (61, 21, 5)",
    )
    run(granted, "UPDATE public.payment SET amount = 7 WHERE id = 411")
    report = deferred.push(granted)
    assert (report.transactions, report.errors) == (3, 2)
    assert of_store(hq) == [[4], [41], [411]]
    assert run(hq, "SELECT amount FROM public.payment WHERE id = 411") == [(7,)]
    why = run(hq, "SELECT error_message FROM snaptide.error_transaction")
    assert [one for [one] in why if "does not grant to this site" not in str(one)] == []
    reports = deferred.retry_errors(hq)
    assert [one.applied for one in reports] == [False, False]
    assert all("not granted to jfk" in str(one.reason) for one in reports)
    assert of_store(hq) == [[4], [41], [411]]
    run(hq, "UPDATE public.customer SET store_id = 3 WHERE id = 2")
    assert [one.applied for one in deferred.retry_errors(hq)] == [True, True]
    assert of_store(hq) == [[2, 4, 6], [21, 22, 23, 41], [61, 211, 221, 411]]


def test_a_snapshot_follows_what_the_publication_says(
    sites: Directory, store: str
) -> None:
    hq = sites["hq"]
    grant_families(hq, "jfk", store)
    with as_login(sites, store) as directory:
        jfk = directory["jfk"]
        snapshots.create(jfk, "customer", master="hq", group="shop")
        columns = ["id", "customer_id", "kind"]
        for where in (None, "id > 0"):
            with pytest.raises(BeyondGrant, match="--follow customer"):
                snapshots.create(
                    jfk,
                    "rental",
                    master="hq",
                    group="shop",
                    where=where,
                    columns=columns,
                )
        snapshots.create(
            jfk,
            "rental",
            master="hq",
            group="shop",
            follow=["customer"],
            columns=columns,
        )
        refresh(jfk, "shop")
        assert ids(jfk, "rental") == of_store(hq)[1]
        with pytest.raises(BeyondGrant, match="has no condition"):
            snapshots.alter_condition(jfk, "customer", where="id > 0")
        masters.alter_publication(
            hq,
            "shop",
            ["customer", "rental"],
            where={
                "customer": "store_id = :store",
                "rental": "customer_id = :store",
            },
        )
        with pytest.raises(BeyondGrant, match="rental chooses its rows itself"):
            refresh(jfk, "shop")


def test_a_publication_shows_what_its_rows_follow(sites: Directory, store: str) -> None:
    hq = sites["hq"]
    grant_families(hq, "jfk", store)
    shown = {one.table: one.where for one in masters.list_publications(hq)[0].tables}
    assert shown == {
        "customer": '"store_id" = :store',
        "rental": "follows customer",
        "payment": "follows rental",
    }


REFUSED = {
    "follows shop": "no foreign key 'shop'",
    "follows customer OR true": "no foreign key",
    "follows customer AND follows customer": "twice",
    "follows customer AND kind = :kind": "does not record kind",
    "follows": "not of the form",
}


@pytest.mark.parametrize("where", REFUSED)
def test_what_cannot_be_followed_is_refused(
    sites: Directory, store: str, where: str
) -> None:
    with pytest.raises(masters.BadTemplate, match=REFUSED[where]):
        masters.create_publication(
            sites["hq"], "shop", ["customer", "rental"], where={"rental": where}
        )


def test_parents_that_cannot_be_followed_are_refused(
    sites: Directory, store: str
) -> None:
    hq = sites["hq"]

    def refused(match: str) -> None:
        with pytest.raises(masters.BadTemplate, match=match):
            masters.create_publication(hq, "shop", tables, where=where)

    tables, where = ["rental"], {"rental": "follows customer"}
    refused("customer .customer_id., which is not in this publication")
    tables = ["customer", "rental"]
    masters.alter_snapshot_log(hq, "rental", partition_columns=[])
    refused("does not record customer_id")
    masters.alter_snapshot_log(hq, "rental", partition_columns=["customer_id"])
    run(hq, "ALTER TABLE public.customer ADD last int REFERENCES public.rental")
    masters.alter_snapshot_log(hq, "customer", partition_columns=["last"])
    where = {"rental": "follows customer", "customer": "follows rental"}
    refused("which follows it in turn")
    with pytest.raises(masters.CannotPublish, match="must include customer_id"):
        masters.create_publication(
            hq,
            "shop",
            tables,
            where={"rental": "follows customer"},
            columns={"rental": ["id"]},
        )


@pytest.mark.parametrize("large", [False, True])
def test_hidden_children_leave_with_their_parent(
    rented: Directory, granted: Site, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """The master shows neither parent nor children, and no log names the children."""
    hq = rented["hq"]
    if large:
        monkeypatch.setattr(
            comparison, "small_windows", lambda _, members: [None for _ in members]
        )
    run(hq, "UPDATE public.customer SET store_id = 4 WHERE id = 2")
    refresh(granted, "shop", allow_mass_delete=True)
    assert every(granted) == of_store(hq) == [[4], [41], [411]]


def test_check_finds_children_of_hidden_parents_on_their_way(
    rented: Directory, granted: Site
) -> None:
    run(rented["hq"], "UPDATE public.customer SET store_id = 4 WHERE id = 2")
    found = snapshots.check(granted, "shop")
    reasons = {d.reason for one in found.snapshots for d in one.differences}
    assert reasons == {snapshots.Reason.IN_FLIGHT}
