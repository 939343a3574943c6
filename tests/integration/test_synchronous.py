"""Synchronous propagation: one transaction at a site and its master."""

import pytest
from sqlalchemy import text

import deferred
from sites import Directory
from tests.linked_table import link, rows, run, run_everywhere

ROW = "INSERT INTO orders VALUES (1, 'Ann', 1, 9.90, '2026-01-01')"


@pytest.fixture
def linked(sites: Directory) -> Directory:
    """The table `orders` at both sites, with one row, propagated synchronously."""
    link(sites, synchronous=True)
    run_everywhere(sites, ROW)
    return sites


def left_at(sites: Directory) -> list[int]:
    """What is left over: calls, transactions, prepared ones."""
    jfk, hq = sites["jfk"], sites["hq"]
    return [
        run(jfk, 'SELECT count(*) FROM snaptide."def$_orders"')[0][0],
        run(jfk, "SELECT count(*) FROM snaptide.deferred_transaction")[0][0],
        run(
            hq,
            "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'snaptide:%'",
        )[0][0],
    ]


def test_a_change_is_at_both_sites_at_once(linked: Directory) -> None:
    with deferred.synchronous(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = 2 WHERE id = 1"))
        assert rows(linked["hq"])[0][2] == 1

    assert rows(linked["hq"]) == rows(linked["jfk"])
    assert rows(linked["hq"])[0][2] == 2
    assert left_at(linked) == [0, 0, 0]


def test_a_change_that_is_rolled_back_is_nowhere(linked: Directory) -> None:
    with deferred.synchronous(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = 2 WHERE id = 1"))
        connection.rollback()

    assert [rows(site)[0][2] for site in linked.values()] == [1, 1]
    assert left_at(linked) == [0, 0, 0]
