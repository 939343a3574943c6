"""A table of orders, with an updatable snapshot of some rows and one to read of all."""

from typing import Any

import snapshots
from sites import Site
from tests.fix_sites import log
from tests.linked_table import run

ORDERS = (
    "CREATE TABLE public.orders (id int PRIMARY KEY, airport text NOT NULL,"
    " first text, last text, qty int DEFAULT 1)"
)
SWAP = (
    "ALTER TABLE public.orders RENAME first TO between",
    "ALTER TABLE public.orders RENAME last TO first",
    "ALTER TABLE public.orders RENAME between TO last",
)


def found(hq: Site, jfk: Site) -> None:
    """Make both, in one refresh group, and fill them."""
    run(
        hq,
        ORDERS,
        "INSERT INTO public.orders SELECT n, CASE n % 3 WHEN 0 THEN 'LAX' ELSE 'JFK'"
        " END, 'f' || n, 'l' || n, n FROM generate_series(1, 9) n",
    )
    log(hq, "orders")
    made: dict[str, Any] = {"master": "hq", "group": "airport"}
    where = "airport = 'JFK'"
    snapshots.create(jfk, "orders", where=where, updatable=True, **made)
    snapshots.create(jfk, "seen", table="orders", **made)
    snapshots.refresh(jfk, "airport")
