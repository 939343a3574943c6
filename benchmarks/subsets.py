"""Rows that follow their parents: cost follows the rows that enter and leave."""

from __future__ import annotations

import itertools

from sqlalchemy import text

import masters
import snapshots
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import directory, tidy
from sites import Directory

#: Rentals of each customer.
EACH = 100

#: Customers that change in columns that no condition asks about.
UNASKED = 10_000

_TABLES = (
    "CREATE TABLE public.customer (id int PRIMARY KEY, store int, name text)",
    (
        "CREATE TABLE public.rental (id int PRIMARY KEY, customer_id int NOT NULL"
        " REFERENCES public.customer, note text)"
    ),
)
_ROWS = (
    (
        "INSERT INTO public.customer SELECT g, g % 10, 'name ' || g"
        " FROM generate_series(1, :customers) g"
    ),
    (
        "INSERT INTO public.rental SELECT g, 1 + g % :customers, md5(cast(g AS text))"
        " FROM generate_series(1, :rentals) g"
    ),
    "CREATE INDEX ON public.rental (customer_id)",
)


#: In the first and third store, which are the site's.
_TOUCH = (
    "UPDATE public.rental SET note = 'n' || cast(:seed AS text) FROM public.customer c"
    " WHERE c.id = customer_id AND c.id = 10 * :seed + 2"
)
_MOVE = "UPDATE public.customer SET store = 9 WHERE id = 10 * :seed + 1"
_TOUCH_MANY = (
    "UPDATE public.rental SET note = 'n' || cast(:seed AS text) WHERE id <= :many"
)
_RENAME = (
    "UPDATE public.customer SET name = 'n' || cast(:seed AS text) WHERE id <= :many"
)


#: A store of customers becomes the site's; as many rentals are added, of its customers.
_ENTER = "UPDATE public.customer SET store = 1 WHERE store = 3 + :seed"
_ADD = (
    "INSERT INTO public.rental SELECT (1000 + :seed) * :entering + g,"
    " 10 * (g % (:entering / :each)) + 2, md5(cast(g AS text))"
    " FROM generate_series(1, :entering) g"
)

#: How many times as many rows the large table has.
LARGER = 4


def run(rows: int) -> list[Result]:
    """Rows that follow a parent, against as many plain ones, and in a larger table."""
    return [*_against_plain(rows), *_in_larger_table(rows)]


def _against_plain(rows: int) -> list[Result]:
    """One parent that moves, or many; parents that do not matter."""
    with directory("hq", "jfk") as sites:
        _create(sites, rows)
        seeds = itertools.count(1)
        labels = {
            _TOUCH: f"{EACH} rentals change",
            _MOVE: f"one customer with {EACH} rentals moves",
            _TOUCH_MANY: f"{UNASKED:,} rentals change",
            _RENAME: f"{UNASKED:,} customers change their names",
        }
        plain, moved, changed, unasked = (
            _side(sites, label, statement, seeds) for statement, label in labels.items()
        )
        return [
            *alternate(
                f"refresh: {EACH} rows follow a parent",
                moved,
                Against(side=plain, bar=1.3),
                rounds=9,
            ),
            *alternate(
                "refresh: parents change in what no condition asks",
                unasked,
                Against(side=changed, bar=1.3),
            ),
            *_entering(sites, rows),
        ]


def _entering(sites: Directory, rows: int) -> list[Result]:
    """All rentals of a store enter, against as many that are new."""
    count = rows // 10
    entering, added = (
        _side(sites, f"{count:,} rentals {what}", statement, itertools.count(1), count)
        for what, statement in (("enter", _ENTER), ("are added", _ADD))
    )
    return alternate(
        "refresh: many rows enter with their parents",
        entering,
        Against(side=added, bar=1.2),
        rounds=4,
    )


def _in_larger_table(rows: int) -> list[Result]:
    """The same move in a table of these rows, and in a larger one."""
    with directory("hq", "jfk") as small, directory("hq", "jfk") as large:
        _create(small, rows)
        _create(large, rows * LARGER)
        in_small, in_large = (
            _side(sites, f"in a table of {size:,}", _MOVE, itertools.count(1))
            for sites, size in ((small, rows), (large, rows * LARGER))
        )
        return alternate(
            f"refresh: {EACH} rows follow a parent in a larger table",
            in_large,
            Against(side=in_small, bar=1.15),
            rounds=9,
        )


def _create(sites: Directory, rows: int) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    with hq.begin() as connection:
        for statement in (*_TABLES, *_ROWS):
            sizes = {"customers": rows // EACH, "rentals": rows}
            connection.execute(text(statement), sizes)
    for name in ("customer", "rental"):
        masters.create_snapshot_log(hq, name)
    snapshots.create(
        jfk, "customer", master="hq", group="shop", where="store IN (1, 2, 3)"
    )
    snapshots.create(jfk, "rental", master="hq", group="shop", follow=["customer"])
    snapshots.refresh(jfk, "shop")


def _side(
    sites: Directory,
    label: str,
    statement: str,
    seeds: itertools.count[int],
    entering: int = 0,
) -> Side:
    def before() -> None:
        sizes = {"many": UNASKED, "each": EACH, "entering": entering}
        with sites["hq"].begin() as connection:
            connection.execute(text(statement), {"seed": next(seeds), **sizes})
        masters.purge_snapshot_logs(sites["hq"])
        for name in ("customer", "rental"):
            tidy(sites["hq"], f"public.{name}")
            tidy(sites["jfk"], f'public."snap$_{name}"')

    return Side(
        label=label, run=lambda: snapshots.refresh(sites["jfk"], "shop"), before=before
    )
