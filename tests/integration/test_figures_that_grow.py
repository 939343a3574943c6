"""Counters only grow, whatever is purged, and are what the databases have counted."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta

import pytest

import deferred
import snapshots
from masters.analysis import records
from masters.rules import rulebook
from sites import Directory
from snaptide.figures import FIGURES
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.integration.test_figures import figures
from tests.linked_table import as_refresh, run, scalar
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

Found = Mapping[tuple[str, ...], float]

#: Names of samples whose values never fall.
GROWING = {
    *(one.name for one in FIGURES if one.kind == "counter"),
    *(
        f"{one.name}_{part}"
        for one in FIGURES
        if one.kind == "histogram"
        for part in ("bucket", "sum", "count")
    ),
}
DELIVERED = ("snaptide_delivered_transactions_total", "jfk", "hq")
RULES = {
    "tables": {
        "orders": {
            "groups": {"names": ["name"], "amounts": ["qty"]},
            "update": [
                {"group": "names", "method": "discard"},
                {"group": "amounts", "method": "additive"},
            ],
        }
    }
}


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """Nine orders at both sites; conflicts about them are settled by rules."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE orders (id int PRIMARY KEY, name text, qty int)",
        "INSERT INTO orders SELECT g, 'tulips', 10 FROM generate_series(1, 9) g",
    )
    log(hq, "orders")
    rulebook.apply(hq, RULES)
    snapshots.create(jfk, "orders", master="hq", group="airport", updatable=True)
    refresh(jfk, "airport")


def grew(before: Found, after: Found) -> None:
    """See that no counter is gone, or has fallen."""
    for name, value in before.items():
        if name[0] in GROWING:
            assert after.get(name, -1) >= value, name


def test_transactions_that_were_brought(sites: Directory) -> None:
    jfk = sites["jfk"]
    before = figures(sites)
    assert before[DELIVERED] == 0
    run(jfk, "UPDATE orders SET qty = 11 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 12 WHERE id = 2")
    deferred.push(jfk)
    found = figures(sites)
    brought = (
        "SELECT count(*) FROM snaptide.delivery d JOIN snaptide.batch b"
        " ON b.destination = d.destination AND b.number = d.batch"
        " AND b.answered >= d.order_no"
    )
    assert found[DELIVERED] == scalar(jfk, brought) == 2
    refresh(jfk, "airport")
    deferred.purge(jfk, retention=timedelta())
    assert scalar(jfk, brought) == 0
    assert figures(sites)[DELIVERED] == 2
    deferred.push(jfk)
    run(jfk, "UPDATE orders SET qty = 13 WHERE id = 2")
    snapshots.refresh(jfk, "airport")
    assert figures(sites)[DELIVERED] == 3
    grew(found, figures(sites))


def test_a_push_that_fails_counts_what_it_has_brought(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    as_refresh(hq, "INSERT INTO orders VALUES (20, 'asters', 1)")
    run(jfk, "UPDATE orders SET qty = 11 WHERE id = 1")
    run(jfk, "INSERT INTO orders VALUES (20, 'roses', 2)")
    with pytest.raises(deferred.TransactionRefused):
        deferred.push(jfk, error_action="stop")
    assert figures(sites)[DELIVERED] == 1


def test_conflicts_that_rules_have_resolved(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]

    def conflict(number: int) -> None:
        as_refresh(hq, f"UPDATE orders SET name = 'hq', qty = 5 WHERE id = {number}")
        run(jfk, f"UPDATE orders SET name = 'jfk', qty = 20 WHERE id = {number}")
        assert deferred.push(jfk).errors == 0

    def resolved() -> dict[str, float]:
        named = "snaptide_conflicts_resolved_total"
        return {
            one[2]: n for one, n in figures(sites).items() if one[:2] == (named, "hq")
        }

    assert resolved() == {}
    conflict(1)
    conflict(2)
    by_method = (
        "SELECT method, count(*)::int FROM snaptide.resolution_record GROUP BY 1"
    )
    assert resolved() == dict(run(hq, by_method)) == {"additive": 2, "discard": 2}
    for number in (3, 4):
        assert records.purge_resolutions(hq, timedelta()) > 0
        assert run(hq, by_method) == []
        conflict(number)
        assert resolved() == {"additive": number, "discard": number}
    assert records.purge_resolutions(hq, timedelta(days=1)) == 0
    assert resolved() == {"additive": 4, "discard": 4}


def test_what_refreshes_have_written(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    before = figures(sites)
    run(
        hq,
        "INSERT INTO orders VALUES (10, 'asters', 1), (11, 'asters', 1)",
        "UPDATE orders SET qty = 9 WHERE id < 4",
        "DELETE FROM orders WHERE id = 9",
    )
    run(jfk, "UPDATE orders SET qty = 8 WHERE id = 1")
    refresh(jfk, "airport")
    found = figures(sites)
    rows = {
        kind: found["snaptide_refresh_rows_total", "jfk", "airport", kind]
        for kind in ("inserted", "updated", "deleted", "held_back")
    }
    assert rows == {"inserted": 9 + 2, "updated": 2, "deleted": 1, "held_back": 1}
    held = "snaptide_held_back_rows"
    assert {k: v for k, v in found.items() if k[0] == held} == {
        (held, "jfk", "airport", "pending"): 1
    }
    seconds = "snaptide_refresh_seconds"
    for step, refreshes in (("window", 2), ("merge", 2), ("load", 1), ("compare", 2)):
        at = ("jfk", "airport", step)
        assert found[f"{seconds}_count", *at] == refreshes
        assert found[f"{seconds}_bucket", "jfk", "airport", "+Inf", step] == refreshes
        noted = scalar(
            jfk,
            f"SELECT sum((steps ->> '{step}')::float8)"
            f" FROM snaptide.refresh_run WHERE steps ? '{step}'",
        )
        assert found[f"{seconds}_sum", *at] == pytest.approx(noted, abs=1e-3)
        buckets = [
            n
            for key, n in found.items()
            if key[0] == f"{seconds}_bucket" and key[-1] == step
        ]
        assert buckets == sorted(buckets)
    grew(before, found)
    snapshots.refresh(jfk, "airport")
    refresh(jfk, "airport")
    again = figures(sites)
    assert not any(key[0] == held for key in again)
    grew(found, again)
    # A refresh that finds nothing new counts nowhere.
    refresh(jfk, "airport")
    grew(again, last := figures(sites))
    grew(last, again)


def test_counters_grow_under_load(sites: Directory) -> None:
    """No counter is ahead of what the database has, and none falls."""
    hq, jfk = sites["hq"], sites["jfk"]
    made = "SELECT count(*) FROM snaptide.deferred_transaction"
    ended, failures = threading.Event(), []

    def work() -> None:
        try:
            for number in range(100, 112):
                run(jfk, f"INSERT INTO orders VALUES ({number}, 'jfk', 1)")
                run(hq, f"INSERT INTO orders VALUES ({number + 100}, 'hq', 1)")
                snapshots.refresh(jfk, "airport")
                records.purge_resolutions(hq, timedelta())
        except Exception as error:
            failures.append(error)
        finally:
            ended.set()

    before, user = figures(sites), threading.Thread(target=work)
    user.start()
    try:
        last = False
        while not last:
            last = ended.is_set()
            found = figures(sites)
            grew(before, found)
            assert found[DELIVERED] <= scalar(jfk, made)
            before = found
    finally:
        user.join()
    assert failures == []
    assert before[DELIVERED] == scalar(jfk, made) == 12
    rows = ("snaptide_refresh_rows_total", "jfk", "airport", "inserted")
    assert before[rows] == scalar(jfk, "SELECT count(*) FROM orders") - 12 == 9 + 12
