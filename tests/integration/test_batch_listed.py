"""The transactions of a batch, as they are listed when it is cut, and afterwards."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from deferred.batches import ledger
from deferred.batches.batch import Batch, touching
from deferred.batches.cut import next_batch
from deferred.batches.ledger import Listing
from deferred.batches.marker import Marker
from deferred.queues.queue import list_queues
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, run, run_each


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Four transactions wait, the third of them brought from another site."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0), (2, 'b', 0)")
    run_each(sites["jfk"], *["UPDATE orders SET qty = qty + 1 WHERE id = 1"] * 4)
    brought = (
        "UPDATE snaptide.deferred_transaction SET origin = 'lax',"
        " origin_transaction = '77', made_at = '2026-02-03 04:05:06+00' WHERE xid ="
        " (SELECT xid FROM snaptide.deferred_transaction ORDER BY xid OFFSET 2 LIMIT 1)"
    )
    run(sites["jfk"], brought)


@pytest.fixture
def origin(orders: Directory) -> Iterator[Connection]:
    with orders["jfk"].transaction() as connection:
        yield connection


def test_new_batch_is_listed_as_one_that_is_pushed_on(origin: Connection) -> None:
    """The first of a window, one from the rest of it, and the same when asked again."""
    first = _cut(origin, Marker(), 2)
    assert first is not None
    second = _cut(origin, _answered(first[0]), 10)
    assert second is not None
    for batch, listed in (first, second):
        assert listed == ledger.listing(origin, batch)
        assert (len(listed.orders), listed.calls) == (2, [1, 1])
    assert second == _cut(origin, _answered(first[0]), 10)
    assert first[1].lists["origins"] is None
    assert second[1].lists["origins"] == "{lax,NULL}"
    assert str(second[1].lists["transactions"]).startswith("{77,")


def test_long_lists_are_not_compressed(orders: Directory) -> None:
    """That took longer than all else that the destination does with them."""
    long = (
        "INSERT INTO snaptide.push_batch (origin_id, number, id, orders, started,"
        " transactions) SELECT gen_random_uuid(), 1, gen_random_uuid(), array_agg(g),"
        " array_agg(now()), array_agg(g) FROM generate_series(1, 9999) g"
    )
    hq = orders["hq"]
    run(hq, long)
    how = [f"pg_column_compression({one})" for one in ("orders", "started")]
    how.append("pg_column_compression(transactions)")
    found = f"SELECT {', '.join(how)} FROM snaptide.push_batch WHERE number = 1"
    assert run(hq, found) == [(None, None, None)]


def test_calls_of_each_are_listed_where_one_has_several(orders: Directory) -> None:
    jfk = orders["jfk"]
    both = [f"UPDATE orders SET qty = qty + 1 WHERE id = {n}" for n in (1, 2)]
    run(jfk, *both)
    with jfk.transaction() as origin:
        found = _cut(origin, Marker(), 10)
        assert found is not None
        batch, listed = found
        assert listed.calls == [1, 1, 1, 1, 2]
        assert listed == ledger.listing(origin, batch)


def test_transactions_with_some_calls_are_found_in_their_batch(
    origin: Connection,
) -> None:
    """All of a batch, none, and one."""
    found = _cut(origin, Marker(), 2)
    assert found is not None
    batch, listed = found
    calls = list_queues(origin, "hq")[0].sql()
    rest = _cut(origin, _answered(batch), 10)
    assert rest is not None
    assert touching(origin, batch, calls) == set(listed.orders)
    last = calls.c.n3 == 4
    assert touching(origin, batch, calls, last) == set()
    assert touching(origin, rest[0], calls, last) == {rest[1].orders[-1]}


def _cut(origin: Connection, at: Marker, calls: int) -> tuple[Batch, Listing] | None:
    return next_batch(origin, "hq", at, calls)


def _answered(batch: Batch) -> Marker:
    return Marker(batch_no=batch.number, batch_id=batch.id, order_no=batch.end)
