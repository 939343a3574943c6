"""Queues that were cut into batches when each delivery said that it was answered."""

import deferred
from sites import Directory, Site
from snaptide import migrate
from tests.linked_table import as_refresh, link, parked, queued, rows, run

BEFORE = "0074"
#: Of each transaction in a batch, in order, whether it counts as delivered.
MARKED = (
    "SELECT delivered_at IS NOT NULL FROM snaptide.delivery"
    " WHERE batch IS NOT NULL ORDER BY order_no"
)


def test_an_open_queue_keeps_its_meaning(sites: Directory) -> None:
    """Delivered, in a batch whose end is not noted yet, and in no batch."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    for site in (hq, jfk):
        as_refresh(site, "INSERT INTO orders (id, qty) VALUES (1, 0)")
    _add(jfk, 2)
    deferred.push(jfk)
    _add(jfk, 2)
    deferred.push(jfk)
    _add(jfk, 1)
    migrate.downgrade(jfk, BEFORE)
    assert run(jfk, MARKED) == [(True,)] * 4
    # As a pusher leaves it that dies before it marks all of its batch.
    run(
        jfk,
        "UPDATE snaptide.delivery SET delivered_at = NULL"
        " WHERE order_no = (SELECT max(order_no) FROM snaptide.delivery)",
    )
    _add(jfk, 1)

    migrate.upgrade(jfk)
    assert queued(jfk) == 3
    report = deferred.push(jfk)
    assert (report.transactions, report.errors, queued(jfk)) == (2, 0, 0)
    assert rows(hq) == rows(jfk) == [(1, None, 6, None, None)]
    assert parked(hq) == []
    migrate.downgrade(jfk, BEFORE)
    assert run(jfk, MARKED) == [(True,)] * 6
    migrate.upgrade(jfk)


def test_what_came_by_another_way_stays_delivered(sites: Directory) -> None:
    jfk = sites["jfk"]
    link(sites)
    _add(jfk, 1, "INSERT INTO orders (id) VALUES (1)")
    deferred.push(jfk)
    migrate.downgrade(jfk, BEFORE)
    run(jfk, "UPDATE snaptide.delivery SET batch = -1")
    migrate.upgrade(jfk)
    assert queued(jfk) == 0


def _add(
    site: Site, times: int, statement: str = "UPDATE orders SET qty = qty + 1"
) -> None:
    for _ in range(times):
        run(site, statement)
