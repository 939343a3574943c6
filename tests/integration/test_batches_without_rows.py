"""Batches of many transactions say which they are, and these have no rows."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

import deferred
from deferred.batches import cut, whole_window
from deferred.catalog import deferred_transaction, delivery
from deferred.queues import delivery_rows, queue
from sites import Directory, Site
from snaptide import migrate
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.linked_table import (
    application,
    as_refresh,
    link,
    parked,
    queued,
    rows,
    run,
    run_each,
    scalar,
)

#: So few transactions are many in these tests.
MANY = 5

ROWS = "SELECT count(*) FROM snaptide.delivery_row"
SHOWN = (
    "SELECT destination, xid::text, order_no, calls, batch FROM snaptide.delivery"
    " ORDER BY batch, order_no"
)
#: Its batches should be those of the transactions that the user saw committed.
MADE = "SELECT xid::text, order_no FROM snaptide.deferred_transaction ORDER BY order_no"

#: A transaction whose calls are all gone, or went elsewhere.
WITHOUT_CALL = (
    "INSERT INTO snaptide.deferred_transaction (xid, origin_user)"
    " VALUES (pg_current_xact_id(), 'clerk')"
)

#: How often the session has looked into the table of batches.
BATCH_SCANS = sa.text(
    "SELECT seq_scan + idx_scan FROM pg_stat_xact_user_tables"
    " WHERE relid = 'snaptide.batch'::regclass"
)


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Nine rows at both sites."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 0 FROM generate_series(1, 9) g",
        )


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_window, "MANY", MANY)


def add(site: Site, times: int, id_: int = 1) -> None:
    """Commit so many transactions of one call each."""
    run_each(site, *[f"UPDATE orders SET qty = qty + 1 WHERE id = {id_}"] * times)


def left(site: Site, moments: Moments) -> None:
    """Cut what waits, and die before anything of it is shipped."""
    moments.at("push.after_cut", _die)
    with pytest.raises(KeyboardInterrupt):
        deferred.push(site)


def test_many_that_are_alike_have_no_rows(orders: Directory) -> None:
    jfk = orders["jfk"]
    add(jfk, MANY)
    assert deferred.push(jfk).transactions == MANY
    made = run(jfk, MADE)
    assert run(jfk, ROWS) == [(0,)]
    assert run(jfk, SHOWN) == [("hq", xid, order, 1, 1) for xid, order in made]
    assert rows(orders["hq"]) == rows(jfk)
    assert queued(jfk) == 0
    # Few have, in the next batch.
    add(jfk, MANY - 1)
    assert deferred.push(jfk).transactions == MANY - 1
    assert run(jfk, ROWS) == [(MANY - 1,)]
    assert len(run(jfk, SHOWN)) == 2 * MANY - 1
    assert rows(orders["hq"]) == rows(jfk)


@pytest.mark.parametrize("point", ["cut", "lay_commit", "commit", "mark"])
def test_the_same_batch_is_pushed_on_after_a_death(
    orders: Directory, moments: Moments, point: str
) -> None:
    jfk = orders["jfk"]
    add(jfk, MANY)
    before = "after_cut" if point == "cut" else f"before_{point}"
    moments.at(f"push.{before}", _die)
    with pytest.raises(KeyboardInterrupt):
        deferred.push(jfk)
    assert queued(jfk) == MANY
    add(jfk, 2)
    assert deferred.push(jfk).transactions == (2 if point == "mark" else MANY + 2)
    assert rows(orders["hq"]) == rows(jfk)
    assert (queued(jfk), parked(orders["hq"])) == (0, [])


def test_one_that_was_open_before_has_a_row(
    orders: Directory, moments: Moments
) -> None:
    """It began before the window before was cut, so its id lies in that one's range."""
    jfk = orders["jfk"]
    late = application(jfk)
    late.execute("UPDATE orders SET qty = qty + 100 WHERE id = 2")
    add(jfk, MANY)
    deferred.push(jfk)
    late.commit()
    late.close()
    add(jfk, MANY)
    left(jfk, moments)
    made = [order for _, order in run(jfk, MADE)]
    assert [row[2:] for row in run(jfk, SHOWN)] == [
        *((order, 1, 1) for order in made[:MANY]),
        *((order, 1, 2) for order in made[MANY:]),
    ]
    assert run(jfk, ROWS) == [(1,)]
    assert deferred.push(jfk).transactions == MANY + 1
    assert rows(orders["hq"]) == rows(jfk)
    assert queued(jfk) == 0


def test_one_that_is_still_open_is_not_in_it(orders: Directory) -> None:
    """Its id lies between those of the batch; so does its order number, in the end."""
    jfk = orders["jfk"]
    add(jfk, 2)
    late = application(jfk)
    late.execute("UPDATE orders SET qty = qty + 100 WHERE id = 2")
    late.execute("SET CONSTRAINTS ALL IMMEDIATE")
    add(jfk, MANY)
    assert deferred.push(jfk).transactions == MANY + 2
    late.commit()
    late.close()
    assert len(run(jfk, SHOWN)) == MANY + 2
    assert queued(jfk) == 1
    assert deferred.push(jfk).transactions == 1
    assert rows(orders["hq"]) == rows(jfk)


@pytest.mark.parametrize(
    "other",
    [
        ("UPDATE orders SET qty = qty + 1 WHERE id < 3",),
        (WITHOUT_CALL,),
    ],
    ids=["of two calls", "without a call"],
)
def test_where_one_is_not_like_the_others_all_have_rows(
    orders: Directory, moments: Moments, other: tuple[str, ...]
) -> None:
    jfk = orders["jfk"]
    add(jfk, MANY)
    run(jfk, *other)
    add(jfk, 1)
    left(jfk, moments)
    assert run(jfk, ROWS) == [(len(run(jfk, SHOWN)),)]
    deferred.push(jfk)
    assert rows(orders["hq"]) == rows(jfk)
    assert queued(jfk) == 0


def test_all_may_have_the_same_number_of_calls(
    orders: Directory, moments: Moments
) -> None:
    jfk = orders["jfk"]
    run_each(jfk, *["UPDATE orders SET qty = qty + 1 WHERE id < 4"] * MANY)
    left(jfk, moments)
    assert run(jfk, ROWS) == [(0,)]
    assert {row[3] for row in run(jfk, SHOWN)} == {3}
    assert deferred.push(jfk).calls == 3 * MANY
    assert rows(orders["hq"]) == rows(jfk)


def test_a_window_of_several_batches_has_rows(orders: Directory) -> None:
    jfk = orders["jfk"]
    add(jfk, 2 * MANY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "BATCH_CALLS", MANY)
        assert deferred.push(jfk).transactions == 2 * MANY
    assert run(jfk, ROWS) == [(2 * MANY,)]
    assert rows(orders["hq"]) == rows(jfk)


def test_a_batch_that_is_shipped_in_pieces_gets_rows(orders: Directory) -> None:
    """One of them is in conflict, and parked with what depends on it."""
    hq, jfk = orders["hq"], orders["jfk"]
    as_refresh(hq, "UPDATE orders SET qty = 7 WHERE id = 2")
    add(jfk, MANY)
    add(jfk, 1, id_=2)
    add(jfk, MANY)
    report = deferred.push(jfk, retry_threshold=2)
    assert (report.transactions, report.errors) == (2 * MANY + 1, 1)
    assert run(jfk, ROWS) == [(2 * MANY + 1,)]
    assert [row[4] for row in run(jfk, SHOWN)] == [1] * (2 * MANY + 1)
    assert scalar(hq, "SELECT qty FROM orders WHERE id = 1") == 2 * MANY
    assert len(parked(hq)) == 1
    assert queued(jfk) == 0


def test_rows_show_what_the_batch_has_shown(
    orders: Directory, moments: Moments
) -> None:
    """Repairs write them, of one destination or of all; once is enough."""
    jfk = orders["jfk"]
    add(jfk, MANY)
    deferred.push(jfk)
    add(jfk, MANY)
    left(jfk, moments)
    shown = run(jfk, SHOWN)
    for name in ("elsewhere", "hq", None):
        with jfk.transaction() as connection:
            delivery_rows.write_rows(connection, name)
        assert run(jfk, ROWS) == [(0 if name == "elsewhere" else 2 * MANY,)]
        assert run(jfk, SHOWN) == shown
    assert queued(jfk) == MANY
    assert deferred.push(jfk).transactions == MANY
    assert rows(orders["hq"]) == rows(jfk)


def test_rows_are_written_without_a_look_for_each(orders: Directory) -> None:
    """The planner takes the table for an empty one, while it is filled."""
    jfk = orders["jfk"]
    add(jfk, 4 * MANY)
    deferred.push(jfk)
    for table in ("batch", "deferred_transaction", "delivery_row"):
        run(jfk, f"ANALYZE snaptide.{table}")
    with jfk.transaction() as connection:
        delivery_rows.write_rows(connection)
        scans = connection.scalar(
            sa.text(
                "SELECT seq_scan FROM pg_stat_xact_user_tables"
                " WHERE relid = 'snaptide.delivery_row'::regclass"
            )
        )
    assert run(jfk, ROWS) == [(4 * MANY,)]
    assert scans < MANY


def test_an_id_that_comes_again_is_not_in_an_old_batch(orders: Directory) -> None:
    """After a restore into a new cluster, ids start again, but no order numbers do."""
    jfk = orders["jfk"]
    add(jfk, MANY)
    deferred.push(jfk)
    again = "(SELECT min(xid) FROM snaptide.deferred_transaction)"
    run(
        jfk,
        f"DELETE FROM snaptide.deferred_transaction WHERE xid = {again}",
    )
    run(
        jfk,
        "INSERT INTO snaptide.deferred_transaction (xid, origin_user)"
        f" SELECT (xid::text::int - 1)::text::xid8, 'clerk' FROM {again} AS x (xid)",
    )
    assert len(run(jfk, MADE)) == MANY
    assert len(run(jfk, SHOWN)) == MANY - 1


def test_purge_takes_them_with_their_batch(orders: Directory) -> None:
    jfk = orders["jfk"]
    add(jfk, MANY)
    deferred.push(jfk)
    add(jfk, MANY)
    now = timedelta(0)
    deferred.purge(jfk, retention=now, fold_after=now)
    # As long as some wait, none is folded.
    assert len(run(jfk, SHOWN)) == MANY
    assert deferred.push(jfk).transactions == MANY
    deferred.purge(jfk, retention=now, fold_after=now)
    assert run(jfk, SHOWN) == run(jfk, MADE) == []
    assert run(jfk, "SELECT number FROM snaptide.batch") == [(2,)]
    assert rows(orders["hq"]) == rows(jfk)


def test_purge_looks_in_each_batch_once(orders: Directory) -> None:
    """And not for each transaction in all of them."""
    jfk = orders["jfk"]
    for _ in range(3):
        add(jfk, MANY)
        deferred.push(jfk)
    for age, many in ((timedelta(0), 0), (timedelta(days=1), 3 * MANY)):
        kept = queue.not_delivered_before(age).where(
            delivery.c.xid == deferred_transaction.c.xid
        )
        of = sa.select(sa.func.count()).select_from(deferred_transaction)
        with jfk.transaction() as connection:
            connection.execute(sa.text("SET LOCAL enable_nestloop = off"))
            before = connection.scalar(BATCH_SCANS) or 0
            assert connection.scalar(of.where(kept.exists())) == many
            assert connection.scalar(BATCH_SCANS) == before + 2


def test_an_older_program_finds_rows(orders: Directory, moments: Moments) -> None:
    jfk = orders["jfk"]
    add(jfk, MANY)
    deferred.push(jfk)
    add(jfk, MANY)
    left(jfk, moments)
    shown = run(jfk, SHOWN)
    migrate.downgrade(jfk, "0079")
    assert run(jfk, SHOWN) == shown
    assert scalar(jfk, "SELECT count(*) FROM snaptide.deftrandest") == MANY
    migrate.upgrade(jfk)
    assert run(jfk, SHOWN) == shown
    assert run(jfk, ROWS) == [(2 * MANY,)]
    assert deferred.push(jfk).transactions == MANY
    assert rows(orders["hq"]) == rows(jfk)


def _die() -> None:
    raise KeyboardInterrupt
