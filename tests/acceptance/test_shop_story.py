"""A shop with three branches, all set up from one file, and a customer who moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import deferred
from sites import Directory, Site
from snaptide.plan import retire
from tests.linked_table import parked, run
from tests.site_file import applied, planned, write
from tests.stories import assert_equal_to_master, refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")

SHOP = """
CREATE TYPE public.order_state AS ENUM ('open', 'paid', 'sent');
CREATE DOMAIN public.price AS numeric(10,2) CHECK (VALUE >= 0);
CREATE DOMAIN public.mail AS text CHECK (VALUE ~ '@');
CREATE TYPE public.place AS (street text, town text);

CREATE TABLE public.store (id int PRIMARY KEY, town text NOT NULL UNIQUE);
CREATE TABLE public.category (
    id serial PRIMARY KEY, name text NOT NULL, parent int REFERENCES public.category
);
CREATE TABLE public.product (
    id serial PRIMARY KEY,
    category_id int NOT NULL REFERENCES public.category,
    name text NOT NULL,
    tags text[] NOT NULL DEFAULT '{}',
    price public.price NOT NULL,
    words tsvector GENERATED ALWAYS AS (to_tsvector('simple', name)) STORED
);
CREATE INDEX ON public.product USING gin (words);
CREATE TABLE public.customer (
    id serial PRIMARY KEY,
    store_id int NOT NULL REFERENCES public.store,
    name text NOT NULL,
    mails public.mail[],
    home public.place
);
CREATE TABLE public.address (
    id serial PRIMARY KEY,
    customer_id int NOT NULL REFERENCES public.customer,
    lines text[] NOT NULL
);
CREATE TABLE public.visit (
    customer_id int NOT NULL REFERENCES public.customer, day date, pages int4range[]
);
CREATE TABLE public.orders (
    id bigserial PRIMARY KEY,
    customer_id int NOT NULL REFERENCES public.customer,
    state public.order_state NOT NULL DEFAULT 'open',
    total public.price NOT NULL DEFAULT 0
);
CREATE TABLE public.line (
    order_id bigint REFERENCES public.orders ON DELETE CASCADE,
    no int,
    product_id int NOT NULL REFERENCES public.product,
    quantity int NOT NULL CHECK (quantity > 0),
    price public.price NOT NULL,
    PRIMARY KEY (order_id, no)
);
CREATE TABLE public.payment (
    id bigserial,
    paid_on date NOT NULL,
    order_id bigint NOT NULL REFERENCES public.orders,
    amount public.price NOT NULL,
    PRIMARY KEY (id, paid_on)
) PARTITION BY RANGE (paid_on);
CREATE TABLE public.payment_2025 PARTITION OF public.payment
    FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE public.payment_later PARTITION OF public.payment DEFAULT;
CREATE TABLE public.stock (
    store_id int REFERENCES public.store,
    product_id int REFERENCES public.product,
    quantity int NOT NULL,
    PRIMARY KEY (store_id, product_id)
);
CREATE INDEX ON public.customer (store_id);
CREATE INDEX ON public.address (customer_id);
CREATE INDEX ON public.visit (customer_id);
CREATE INDEX ON public.orders (customer_id);
CREATE INDEX ON public.payment (order_id);

CREATE FUNCTION public.sum_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.orders
    SET total = (SELECT coalesce(sum(l.quantity * l.price), 0) FROM public.line l
                 WHERE l.order_id = orders.id)
    WHERE id = coalesce(NEW.order_id, OLD.order_id);
    RETURN NULL;
END $$;
CREATE TRIGGER sum_up AFTER INSERT OR UPDATE OR DELETE ON public.line
    FOR EACH ROW EXECUTE FUNCTION public.sum_up();
CREATE VIEW public.turnover AS
    SELECT c.store_id, sum(o.total) AS total
    FROM public.orders o JOIN public.customer c ON c.id = o.customer_id
    GROUP BY c.store_id;

INSERT INTO public.store VALUES (1, 'Bremen'), (2, 'Rostock'), (3, 'Kiel');
INSERT INTO public.category (name, parent) VALUES ('tea', NULL), ('green', 1);
INSERT INTO public.product (category_id, name, tags, price)
    SELECT 1 + g % 2, 'tea no ' || g, ARRAY['t' || g, 'leaf'], g
    FROM generate_series(1, 12) g;
INSERT INTO public.customer (store_id, name, mails, home)
    SELECT 1 + g % 3, 'customer ' || g,
           ARRAY['c' || g || '@example.com']::public.mail[],
           ROW('street ' || g, 'town')::public.place
    FROM generate_series(1, 9) g;
INSERT INTO public.address (customer_id, lines)
    SELECT g, ARRAY['line 1', 'line 2'] FROM generate_series(1, 9) g;
INSERT INTO public.visit
    SELECT 1 + g % 9, date '2025-01-01' + g, '{"[1,3)"}' FROM generate_series(1, 27) g;
INSERT INTO public.orders (customer_id) SELECT 1 + g % 9 FROM generate_series(1, 18) g;
INSERT INTO public.line
    SELECT o, n, 1 + (o + n) % 12, n, 2.5
    FROM generate_series(1, 18) o, generate_series(1, 3) n;
INSERT INTO public.payment (paid_on, order_id, amount)
    SELECT date '2025-11-01' + g * 10, g, 5 FROM generate_series(1, 18) g;
INSERT INTO public.stock
    SELECT s, p, 100 FROM generate_series(1, 3) s, generate_series(1, 12) p;
"""

FILE = """\
[site]
name = "store${store}"

[groups.shop]
master = "hq"

[snapshots.store]
[snapshots.category]
[snapshots.product]

[snapshots.customer]
where = "store_id = ${store}"
updatable = true

[snapshots.address]
follow = ["customer"]
updatable = true

[snapshots.visit]
follow = ["customer"]

[logs.visit]
with_rowid = true

[snapshots.orders]
follow = ["customer"]
updatable = true

[snapshots.line]
follow = ["orders"]
updatable = true

[snapshots.payment]
follow = ["orders"]
updatable = true

[snapshots.stock]
where = "store_id = ${store}"
updatable = true

[tables.stock]
groups = {quantity = ["quantity"]}

[[tables.stock.update]]
group = "quantity"
method = "additive"

[[schedules]]
kind = "refresh"
subject = "shop"
every = "5m"
"""

#: What belongs to a customer, to the third level.
OF_CUSTOMER = {
    "customer": "id = 3",
    "address": "customer_id = 3",
    "visit": "customer_id = 3",
    "orders": "customer_id = 3",
    "line": "order_id IN (SELECT id FROM orders WHERE customer_id = 3)",
    "payment": "order_id IN (SELECT id FROM orders WHERE customer_id = 3)",
}


def of_customer(site: Site) -> dict[str, int]:
    """How many rows a site has of the customer who moves."""
    return {
        table: run(site, f"SELECT count(*) FROM public.{table} WHERE {which}")[0][0]
        for table, which in OF_CUSTOMER.items()
    }


def sell(site: Site, store: int) -> int:
    """A day at a branch, offline: a new customer orders and pays, goods leave.

    All numbers are the branch's own. Returns that of the order.
    """
    with user(site) as one:
        customer = _one(
            one,
            "INSERT INTO customer (store_id, name, mails) VALUES"
            " (%s, 'new', ARRAY['new@example.com']::mail[]) RETURNING id",
            store,
        )
        address = "INSERT INTO address (customer_id, lines) VALUES (%s, '{a,b}')"
        one.execute(address, [customer])
        order = _one(
            one, "INSERT INTO orders (customer_id) VALUES (%s) RETURNING id", customer
        )
        one.execute("INSERT INTO line VALUES (%s, 1, 1, 2, 3.5)", [order])
        one.execute("INSERT INTO line VALUES (%s, 2, 2, 1, 1)", [order])
        one.commit()
        one.execute(
            "INSERT INTO payment (paid_on, order_id, amount)"
            " VALUES ('2026-01-02', %s, 8)",
            [order],
        )
        one.execute("UPDATE stock SET quantity = quantity - 2 WHERE product_id = 1")
        one.commit()
    return order


def _one(session: psycopg.Connection[tuple[Any, ...]], query: str, value: int) -> int:
    """The number of a row that is inserted."""
    row = session.execute(query, [value]).fetchone()
    assert row is not None
    return int(row[0])


def test_a_shop_with_three_branches_from_one_file(
    make_sites: Callable[..., Directory], tmp_path: Path
) -> None:
    sites = make_sites("hq", "store1", "store2", "store3")
    hq, branches = sites["hq"], [sites[f"store{n}"] for n in (1, 2, 3)]
    run(hq, SHOP)
    file = write(tmp_path, FILE)
    for number, branch in enumerate(branches, 1):
        applied(sites, file, store=str(number))
        found = planned(sites, file, store=str(number))
        assert (found.steps, found.extra, found.refused) == ((), (), ())
        assert_equal_to_master(branch)
        run(
            branch,
            "CREATE VIEW public.turnover AS SELECT c.store_id, sum(o.total) AS total"
            " FROM orders o JOIN customer c ON c.id = o.customer_id GROUP BY 1",
        )

    orders = [sell(branch, number) for number, branch in enumerate(branches, 1)]
    assert len({*orders}) == 3
    run(
        hq,
        "UPDATE public.stock SET quantity = quantity + 50 WHERE product_id = 1",
        "UPDATE public.product SET name = 'green ' || name WHERE category_id = 2",
    )
    for branch in branches:
        deferred.push(branch)
        refresh(branch, "shop")
    assert_equal_to_master(*branches)
    assert run(
        hq, "SELECT DISTINCT quantity FROM public.stock WHERE product_id = 1"
    ) == [(148,)]
    # The master's trigger has summed up what the branches sold.
    total = f"SELECT total FROM public.orders WHERE id = {orders[0]}"
    assert run(branches[0], total) == [(8,)]

    store1, store2, store3 = branches
    before = of_customer(store1)
    assert before == {
        "customer": 1,
        "address": 1,
        "visit": 3,
        "orders": 2,
        "line": 6,
        "payment": 2,
    }
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 3")
    left, arrived = refresh(store1, "shop"), refresh(store2, "shop")
    nothing = dict.fromkeys(before, 0)
    assert {table: left[table].deleted for table in before} == before
    assert {table: arrived[table].inserted for table in before} == before
    assert {one.method for one in (*left.values(), *arrived.values())} == {"fast"}
    assert (of_customer(store1), of_customer(store2)) == (nothing, before)

    # The customer moves on, with an order that the master has not seen yet.
    with user(store2) as one:
        order = _one(
            one, "INSERT INTO orders (customer_id) VALUES (%s) RETURNING id", 3
        )
        one.execute("INSERT INTO line VALUES (%s, 1, 5, 4, 2)", [order])
        one.commit()
    run(hq, "UPDATE public.customer SET store_id = 3 WHERE id = 3")
    settle(*branches)
    assert parked(hq) == []
    assert_equal_to_master(*branches)
    assert of_customer(store3) == {**before, "orders": 3, "line": 7}
    assert of_customer(store2) == nothing
    for branch in branches:
        ours = run(branch, "SELECT store_id, total FROM public.turnover")
        assert set(ours) <= set(run(hq, "SELECT store_id, total FROM public.turnover"))

    run(store3, "DROP VIEW public.turnover")
    assert retire(store3).lost == ()
    assert planned(sites, file, store="3").steps
    applied(sites, file, store="3")
    assert_equal_to_master(*branches)
