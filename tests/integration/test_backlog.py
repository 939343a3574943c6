"""What waits at a site: nothing waits for a destination that it is not for."""

from collections.abc import Callable
from datetime import timedelta

import deferred
from deferred.queues import backlog, define
from deferred.queues.queue import list_queues
from sites import Directory, Site
from tests.linked_table import link, queued, run


def test_a_transaction_does_not_wait_for_another_destination(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "jfk", "lga")
    link(sites)
    run(
        sites["jfk"],
        "INSERT INTO snaptide.destination (name, window_end)"
        " VALUES ('lga', pg_current_snapshot())",
    )
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    assert deferred.push(sites["jfk"], "hq").transactions == 1
    assert deferred.push(sites["jfk"], "lga").transactions == 0
    assert _waiting(sites["jfk"]) == []


def test_what_waits_for_one_destination_does_not_wait_for_the_others(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "jfk", "lga")
    link(sites)
    link(sites, "parcels", master="lga")
    jfk = sites["jfk"]
    run(
        jfk, "INSERT INTO orders (id) VALUES (1)", "INSERT INTO parcels (id) VALUES (1)"
    )
    assert _waiting(jfk) == ["hq", "lga"]
    deferred.push(jfk, "lga")
    assert _waiting(jfk) == ["hq"]
    deferred.push(jfk, "hq")
    assert _waiting(jfk) == []
    run(jfk, *(f"INSERT INTO orders (id) VALUES ({n})" for n in range(2, 4)))
    deferred.push(jfk, "lga")
    with jfk.transaction() as connection:
        (found,) = backlog.waiting_destinations(connection).items()
    assert (found[0], found[1].many) == ("hq", False)


def test_the_rest_of_a_batch_waits(sites: Directory) -> None:
    """What was answered of it is as its pusher noted before it died."""
    jfk = sites["jfk"]
    link(sites)
    for number in range(1, 4):
        run(jfk, f"INSERT INTO orders (id) VALUES ({number})")
    deferred.push(jfk)
    run(
        jfk,
        "UPDATE snaptide.batch SET answered = (SELECT min(order_no) FROM"
        " snaptide.delivery)",
    )
    assert (_waiting(jfk), queued(jfk)) == (["hq"], 2)
    (found,) = backlog.list_destinations(jfk)
    assert (found.transactions, found.calls) == (2, 2)
    with jfk.transaction() as connection:
        queues = list_queues(connection, "hq")
        assert backlog.calls_left(connection, "hq", queues) == 2
    assert deferred.push(jfk).transactions == 0
    assert (_waiting(jfk), queued(jfk)) == ([], 0)


def test_nothing_is_left_of_a_queue_that_was_dropped_full(sites: Directory) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    assert _waiting(sites["jfk"]) == ["hq"]
    with sites["jfk"].transaction() as connection:
        define.drop_queue(connection, "orders", force=True)
    assert deferred.push(sites["jfk"], "hq").transactions == 0
    assert _waiting(sites["jfk"]) == []
    deferred.purge(sites["jfk"], retention=timedelta(0))
    left = run(sites["jfk"], "SELECT count(*) FROM snaptide.deferred_transaction")
    assert left == [(0,)]


def _waiting(site: Site) -> list[str]:
    with site.transaction() as connection:
        return list(backlog.waiting_destinations(connection))
