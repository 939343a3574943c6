"""A push of one table costs no more because the site has snapshots of others."""

from __future__ import annotations

from collections.abc import Mapping

import deferred
from benchmarks.walk import walked
from sites import Site
from tests.linked_table import ORDERS, link, rows, run


def _statements(sites: Mapping[str, Site]) -> int:
    """How many statements a push of one call sends, once its sessions are warm."""
    deferred.push(sites["jfk"])
    for _ in range(2):
        run(sites["jfk"], "UPDATE orders SET qty = qty + 1")
        with walked() as walk:
            assert deferred.push(sites["jfk"]).transactions == 1
    return len(walk.statements)


def test_tables_without_calls_cost_one_statement(sites: Mapping[str, Site]) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO orders VALUES (1, 'Ann', 1, 1, now())")
    alone = _statements(sites)
    for number in range(4):
        link(sites, f"other{number}", ORDERS)
    assert _statements(sites) == alone + 1
    assert rows(sites["hq"]) == rows(sites["jfk"])


def test_transaction_of_some_tables_arrives_whole(sites: Mapping[str, Site]) -> None:
    tables = [f"table{number}" for number in range(4)]
    for table in tables:
        link(sites, table, ORDERS)
    some = [f"INSERT INTO {one} VALUES (1, 'Ann', 1, 1, now())" for one in tables[1:3]]
    run(sites["jfk"], *some)
    assert deferred.push(sites["jfk"]).calls == 2
    assert [len(rows(sites["hq"], one)) for one in tables] == [0, 1, 1, 0]
