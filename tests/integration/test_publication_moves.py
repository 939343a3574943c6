"""Parents that come into a grant, or leave it, while rows below them are queued."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest

import deferred
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.granted import STORE, every, grant_families, let_in, of_store, rent
from tests.linked_table import queued, run
from tests.seeds import seed
from tests.stories import refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

TABLES = ("customer", "rental", "payment")


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    rent(sites)


@pytest.fixture
def granted(sites: Directory) -> Iterator[Site]:
    """The site jfk, which may change what belongs to customers 2 and 4 of store 3."""
    with let_in(sites) as jfk:
        yield jfk


OUT = "UPDATE public.customer SET store_id = 4 WHERE id = 2"
IN = "UPDATE public.customer SET store_id = 3 WHERE id IN (1, 3)"
#: All of these belong to customer 2, but for the last.
CHILDREN = (
    "INSERT INTO public.rental VALUES (23, 2, 'mine')",
    "INSERT INTO public.payment VALUES (231, 21, 7)",
    "UPDATE public.rental SET kind = 'mine' WHERE id = 22",
    "UPDATE public.payment SET amount = 7 WHERE id = 211",
    "DELETE FROM public.payment WHERE id = 221",
    "UPDATE public.payment SET amount = 7 WHERE id = 411",
)

#: What the master does, in transactions of their own.
MOVES: dict[str, Sequence[Sequence[str]]] = {
    "out": [[OUT]],
    "in": [[IN]],
    "out and in together": [[OUT, IN]],
    "out and back": [[OUT], [OUT.replace("= 4 ", "= 3 ")]],
    "out, and deleted": [
        [
            "DELETE FROM public.payment WHERE rental_id IN (21, 22)",
            "DELETE FROM public.rental WHERE customer_id = 2",
            "DELETE FROM public.customer WHERE id = 2",
        ]
    ],
    "its rentals to another customer": [
        ["UPDATE public.rental SET customer_id = 3 WHERE customer_id = 2"]
    ],
    "its payments to another rental": [
        ["UPDATE public.payment SET rental_id = 31 WHERE rental_id = 21"]
    ],
}


@pytest.mark.parametrize("refreshed", [False, True], ids=["pushed", "refreshed"])
@pytest.mark.parametrize("move", MOVES)
def test_children_are_queued_while_parents_move(
    sites: Directory, granted: Site, move: str, refreshed: bool
) -> None:
    """Each change is made, or parked whole; other stores' rows are what they were."""
    hq = sites["hq"]
    for statement in CHILDREN:
        run(granted, statement)
    for statements in MOVES[move]:
        run(hq, *statements)
    others = _others(hq)
    if refreshed:
        # What waits for an answer stays, also where it leaves.
        refresh(granted, "shop", allow_mass_delete=True)
        assert queued(granted) == len(CHILDREN)
        assert (23, "mine") in run(granted, "SELECT id, kind FROM public.rental")
    report = deferred.push(granted)
    assert report.transactions == len(CHILDREN)
    assert (report.errors > 0) is (move not in ("in", "out and back"))
    assert _others(hq) == others
    settle(granted)
    assert every(granted) == of_store(hq)
    assert _of_site(granted) == _of_store(hq)
    # What is parked may be applied by nobody, and stays until somebody decides.
    assert not any(one.applied for one in deferred.retry_errors(hq))
    assert len(deferred.list_errors(hq)) == report.errors
    assert _others(hq) == others
    deferred.delete_errors(hq)
    settle(granted)
    assert _of_site(granted) == _of_store(hq)


def test_parked_children_are_applied_when_their_parent_is_back(
    sites: Directory, granted: Site
) -> None:
    hq = sites["hq"]
    for statement in CHILDREN:
        run(granted, statement)
    run(hq, OUT)
    assert deferred.push(granted).errors == 5
    settle(granted)
    assert every(granted) == [[4], [41], [411]]
    run(hq, OUT.replace("= 4 ", "= 3 "))
    assert all(one.applied for one in deferred.retry_errors(hq))
    settle(granted)
    assert every(granted) == [[2, 4], [21, 22, 23, 41], [211, 231, 411]]
    assert _of_site(granted) == _of_store(hq)


def test_a_key_that_comes_in_with_its_parent_is_taken_by_the_site(
    sites: Directory, granted: Site
) -> None:
    """The site's rental 11 is another one than that of customer 1, which comes in."""
    hq = sites["hq"]
    run(granted, "INSERT INTO public.rental VALUES (11, 2, 'mine')")
    run(granted, "INSERT INTO public.payment VALUES (511, 11, 9)")
    run(hq, IN)
    refresh(granted, "shop")
    assert deferred.push(granted).errors == 2
    settle(granted)
    assert every(granted) == of_store(hq)
    assert run(hq, "SELECT customer_id FROM public.rental WHERE id = 11") == [(1,)]
    assert _of_site(granted) == _of_store(hq)


@pytest.mark.parametrize("pushes", ["before the purge", "after the purge"])
def test_parked_changes_are_purged(
    sites: Directory, granted: Site, pushes: str
) -> None:
    """The master deletes what it parked, and the site what was delivered."""
    hq = sites["hq"]
    for statement in CHILDREN:
        run(granted, statement)
    run(hq, OUT)
    deferred.push(granted)
    if pushes == "before the purge":
        run(granted, "UPDATE public.payment SET amount = 8 WHERE id = 411")
        deferred.push(granted)
    assert deferred.delete_errors(hq) == 5
    run(hq, "UPDATE snaptide.push_batch SET shipped_at = now() - interval '400 days'")
    at_once = timedelta(0)
    deferred.purge(granted, retention=at_once, fold_after=at_once)
    deferred.purge(hq, retention=at_once)
    run(granted, "UPDATE public.payment SET amount = 9 WHERE id = 411")
    settle(granted)
    assert run(hq, "SELECT amount FROM public.payment WHERE id = 411") == [(9,)]
    assert every(granted) == [[4], [41], [411]]
    assert _of_site(granted) == _of_store(hq)
    assert deferred.list_errors(hq) == []
    assert queued(granted) == 0


ROUNDS = 40


def test_moves_by_chance(sites: Directory, granted: Site) -> None:
    """Both write, push and refresh as they like; in the end the site has its rows.

    Now and then it is granted those of another store.
    """
    begun = seed("SNAPTIDE_MOVES_SEED")
    chance, hq, store = Random(begun), sites["hq"], 3
    for number in range(ROUNDS):
        if chance.random() < 0.15:
            store = 7 - store
            grant_families(hq, "jfk", STORE, str(store), updatable=True)
        run(hq, *(_at_master(chance) for _ in range(chance.randint(0, 2))))
        for key in range(chance.randint(0, 2)):
            _at_site(granted, chance, 1000 + 10 * number + key)
        before = _others(hq, store)
        if chance.random() < 0.5:
            deferred.push(granted)
            assert _others(hq, store) == before
        if chance.random() < 0.4:
            refresh(granted, "shop", allow_mass_delete=True)
    settle(granted)
    assert every(granted) == of_store(hq, store)
    assert _of_site(granted) == _of_store(hq, store)
    before = _others(hq, store)
    deferred.retry_errors(hq)
    assert _others(hq, store) == before
    deferred.delete_errors(hq)
    settle(granted)
    assert _of_site(granted) == _of_store(hq, store)
    assert queued(granted) == 0


def _at_master(chance: Random) -> str:
    """Move some rows to other parents, or customers to other stores."""
    one, rest = chance.randint(1, 4), chance.randint(0, 4)
    return chance.choice(
        (
            f"UPDATE public.customer SET store_id = {3 + rest % 2} WHERE id = {one}",
            (
                f"UPDATE public.rental SET customer_id = {one}"
                f" WHERE id = {_any('rental', chance)}"
            ),
            (
                f"UPDATE public.payment SET rental_id = {_any('rental', chance)}"
                f" WHERE id % 5 = {rest}"
            ),
        )
    )


def _at_site(site: Site, chance: Random, key: int) -> None:
    """Change one row, if there is one that the site may change."""
    customer, rental, payment = (_any(table, chance) for table in TABLES)
    insert = "INSERT INTO public.{} SELECT " + str(key) + ", id, {} FROM public.{}"
    statement = chance.choice(
        (
            insert.format("rental", "'mine'", "customer") + f" WHERE id = {customer}",
            insert.format("payment", "1", "rental") + f" WHERE id = {rental}",
            f"UPDATE public.rental SET kind = 'at {key}' WHERE id = {rental}",
            f"UPDATE public.rental SET customer_id = {customer} WHERE id = {rental}",
            f"UPDATE public.payment SET amount = {key} WHERE id = {payment}",
            f"DELETE FROM public.payment WHERE id = {payment}",
        )
    )
    run(site, statement)


def _any(table: str, chance: Random) -> str:
    order = f"(id * 7919) % {chance.randint(2, 97)}"
    return f"(SELECT id FROM public.{table} ORDER BY {order} LIMIT 1)"


_MINE = {
    "customer": "store_id = {}",
    "rental": "customer_id IN (SELECT id FROM public.customer WHERE store_id = {})",
    "payment": (
        "rental_id IN (SELECT r.id FROM public.rental r JOIN public.customer c"
        " ON c.id = r.customer_id WHERE c.store_id = {})"
    ),
}
_COLUMNS = {
    "customer": "id, store_id",
    "rental": "id, customer_id, kind",
    "payment": "id, rental_id, amount",
}


def _of_site(site: Site) -> list[Any]:
    return [_rows(site, table, "true") for table in TABLES]


def _of_store(hq: Site, store: int = 3) -> list[Any]:
    return [_rows(hq, table, _MINE[table].format(store)) for table in TABLES]


def _others(hq: Site, store: int = 3) -> list[Any]:
    """The rows at the master that no site is granted."""
    mine = {table: condition.format(store) for table, condition in _MINE.items()}
    return [_rows(hq, one, f"({mine[one]}) IS NOT TRUE") for one in TABLES]


def _rows(site: Site, table: str, which: str) -> list[Any]:
    columns = _COLUMNS[table]
    return run(site, f"SELECT {columns} FROM public.{table} WHERE {which} ORDER BY 1")
