"""A site that uses its login for rows which follow parents that it is not granted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sites import Directory, Site
from snaptide.embedded import PostgresServer
from tests.fix_worlds import prepared_once
from tests.granted import (
    execute,
    families,
    grant_families,
    login,
    not_empty,
    not_refused,
    session_of,
)
from tests.linked_table import run

#: The site has customers 2 and 4; {other} is the login of the site with 1 and 3.
READER_REFUSED = {
    "a column that is not granted": "SELECT cost FROM public.rental",
    "a column by a join with what is": (
        "SELECT r.cost FROM public.rental r JOIN public.customer c"
        " ON c.id = r.customer_id"
    ),
    "a new child": "INSERT INTO public.payment VALUES (1, 21, 1)",
    "a parent that is taken": "UPDATE public.customer SET store_id = 3",
    "a child that is taken": "UPDATE public.rental SET customer_id = 2",
    "no security": "SET row_security = off; SELECT id FROM public.payment",
    "what other publications say": "SELECT follows FROM snaptide.publication_table",
    "a temporary table for a parent": "CREATE TEMP TABLE customer (id int)",
}

EMPTY = {
    "children of another": ("SELECT id FROM public.rental WHERE customer_id IN (1, 3)"),
    "children of nobody": "SELECT id FROM public.rental WHERE customer_id IS NULL",
    "grandchildren of another": (
        "SELECT id FROM public.payment WHERE rental_id IN (11, 31, 90)"
    ),
    "grandchildren by a function that tells what it is given": (
        "SELECT id FROM public.payment WHERE id IN (111, 311) AND 1 / (id - 111) > 0"
    ),
    "a parent, by a child": (
        "SELECT c.id FROM public.customer c JOIN public.rental r"
        " ON r.customer_id = c.id WHERE c.id IN (1, 3)"
    ),
    "children by a path of its own": (
        "SET search_path = pg_temp, public; SELECT id FROM rental WHERE id IN (11, 31)"
    ),
    "children by a setting": (
        "SET snaptide.store = '4'; SELECT id FROM public.rental WHERE id IN (11, 31)"
    ),
    "keys of children of another in the log": (
        'SELECT k1 FROM snaptide."mlog$_rental" WHERE k1 IN (11, 31, 90)'
    ),
    "keys of their children in the log": (
        'SELECT k1 FROM snaptide."mlog$_payment" WHERE k1 IN (111, 311, 901)'
    ),
    "foreign keys of another in the log": (
        'SELECT 1 FROM snaptide."mlog$_rental"'
        ' WHERE "p$customer_id" IN (hashint8extended(1, 0), hashint8extended(3, 0))'
    ),
}

PUSHER_REFUSED = {
    "a child for a parent of another": (
        "INSERT INTO public.rental (id, customer_id) VALUES (50, 1)"
    ),
    "a child for no parent": "INSERT INTO public.rental (id) VALUES (50)",
    "a grandchild for a child of another": (
        "INSERT INTO public.payment VALUES (50, 11, 1)"
    ),
    "a child given to another": (
        "UPDATE public.rental SET customer_id = 1 WHERE id = 21"
    ),
    "a child given to nobody": (
        "UPDATE public.rental SET customer_id = NULL WHERE id = 21"
    ),
    "a grandchild given to another": "UPDATE public.payment SET rental_id = 31",
    "a grandchild given by MERGE": (
        "MERGE INTO public.payment p USING (VALUES (211)) v (id) ON p.id = v.id"
        " WHEN MATCHED THEN UPDATE SET rental_id = 11"
    ),
    "a child taken by its key": (
        "INSERT INTO public.rental (id, customer_id) VALUES (11, 2)"
        " ON CONFLICT (id) DO UPDATE SET customer_id = 2"
    ),
    "a parent given away with its children": (
        "UPDATE public.customer SET store_id = 4 WHERE id = 2"
    ),
    "a child of a temporary parent": (
        "CREATE TEMP TABLE customer (id int, store_id int); "
        "INSERT INTO pg_temp.customer VALUES (1, 3); "
        "INSERT INTO public.rental (id, customer_id) VALUES (50, 1)"
    ),
}

PUSHER_EMPTY = {
    "children of another to change": (
        "UPDATE public.rental SET kind = 'mine' WHERE customer_id IN (1, 3)"
        " RETURNING id"
    ),
    "children of another to take": (
        "UPDATE public.rental SET customer_id = 2 WHERE id IN (11, 31, 90) RETURNING id"
    ),
    "grandchildren of another to delete": (
        "DELETE FROM public.payment WHERE rental_id IN (11, 31) RETURNING id"
    ),
    "children of another to lock": (
        "SELECT id FROM public.rental WHERE id IN (11, 31, 90) FOR UPDATE"
    ),
}

_RIGHTS = ("42501", "0A000")


@prepared_once("hq", "jfk")
def shop(sites: Directory) -> None:
    """Customers and what belongs to them; something of each has changed."""
    hq = sites["hq"]
    families(hq)
    run(
        hq,
        "UPDATE public.rental SET kind = 'changed'",
        "UPDATE public.payment SET amount = 6",
    )


@pytest.fixture
def logins(shop: Directory, server: PostgresServer) -> Iterator[tuple[str, str]]:
    """The logins of two sites."""
    hq = shop["hq"]
    with login(server, hq) as name, login(server, hq) as other:
        yield name, other


def test_a_hostile_site_reads_no_children_of_others(
    shop: Directory, logins: tuple[str, str]
) -> None:
    hq, (name, other) = shop["hq"], logins
    grant_families(hq, "jfk", name)
    grant_families(hq, "lga", other, "4")
    # What came after the policies: a child that goes, and one that comes.
    run(
        hq,
        "UPDATE public.rental SET kind = 'again' WHERE id IN (11, 22)",
        "UPDATE public.rental SET customer_id = 1 WHERE id = 41",
    )
    with session_of(hq, name) as session:
        done = not_refused(session, READER_REFUSED, _RIGHTS, other)
        done += not_empty(session, EMPTY, other)
        assert done == [], "\n".join(done)
        for query, keys in (
            ("SELECT id FROM public.rental", [21, 22]),
            ("SELECT id FROM public.payment", [211, 221]),
            # 41 is there because it had a customer of the site.
            ('SELECT DISTINCT k1 FROM snaptide."mlog$_rental"', [21, 22, 41]),
            ('SELECT DISTINCT k1 FROM snaptide."mlog$_payment"', [211, 221]),
        ):
            assert execute(session, f"{query} ORDER BY 1") == [(key,) for key in keys]
        plan = execute(
            session,
            "SET enable_seqscan = off; EXPLAIN SELECT id FROM public.payment"
            " WHERE id = 211",
        )
        assert not any("Seq Scan" in str(line) for [line] in plan), plan


def test_a_hostile_site_changes_no_children_of_others(
    shop: Directory, logins: tuple[str, str]
) -> None:
    hq, (name, other) = shop["hq"], logins
    grant_families(hq, "jfk", name, updatable=True)
    grant_families(hq, "lga", other, "4")
    before = _all(hq)
    with session_of(hq, name) as session:
        done = not_refused(session, PUSHER_REFUSED, _RIGHTS, other)
        done += not_empty(session, {**EMPTY, **PUSHER_EMPTY}, other)
    assert done == [], "\n".join(done)
    assert _all(hq) == before


def _all(hq: Site) -> list[object]:
    tables = ("customer", "rental", "payment")
    return [run(hq, f"SELECT s::text FROM public.{one} s ORDER BY 1") for one in tables]
