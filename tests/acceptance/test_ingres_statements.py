"""What Ingres Replicator promises, statement by statement, where groups keep it.

The page `docs/reference/ingres.md` has them all. Elsewhere stand skipped rows (12),
quiet databases (13) and transactions that depend on others (14), in
`integration/test_group_errors.py`; kills around the commits (15), in
`faults/test_push_killed.py`.
"""

import json
from collections.abc import Callable

import psycopg
import pytest

import deferred
import groups
from deferred.errors import DestinationDisabled, TooManyErrors
from deferred.queues.backlog import set_disabled
from groups import TargetType
from groups.relay import duplicate_watch
from groups.relay.duplicate_watch import DuplicateWatch
from masters import rules
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    arrived,
    assert_masters_equal,
    found_group,
    group_id,
    push_all,
)
from tests.linked_table import ORDERS, calls, queued, rows, run

ROW = "INSERT INTO orders VALUES (1, 'a', 0, 0, '2026-01-01')"
STAMPED = "UPDATE orders SET qty = {}, at = '{}'"


@prepared_once("a", "b", "c")
def chain(sites: Directory) -> None:
    """Masters a, b and c in a chain, with a row that was there before the group."""
    for site in sites.values():
        run(site, f"CREATE TABLE orders ({ORDERS})", ROW)
    found_group(sites, "a", "b", "c", via={"c": "b"})


def test_1_insert_is_queued_without_an_old_image(chain: Directory) -> None:
    run(chain["a"], "INSERT INTO orders (id, qty) VALUES (2, 5)")
    [(table, operation, *images)] = calls(chain["a"])
    assert (table, operation) == ("orders", "I")
    assert images[0] is None
    assert (images[1]["id"], images[1]["qty"]) == ("2", "5")
    made = "SELECT origin, count(*) OVER () FROM snaptide.deferred_transaction"
    assert run(chain["a"], made) == [(None, 1)]


def test_2_update_keeps_the_old_image_which_the_history_tells(chain: Directory) -> None:
    run(chain["a"], "UPDATE orders SET qty = 1")
    push_all(chain)
    run(chain["a"], "UPDATE orders SET qty = 2")
    images = [(old["qty"], new["qty"]) for _, _, old, new in calls(chain["a"])]
    assert images == [("0", "1"), ("1", "2")]
    told = deferred.history(chain.values(), "orders", ["1"]).events
    changes = [one for one in told if (one.kind, one.site) == ("change", "a")]
    assert [(one.old or {}).get("qty") for one in changes] == ["0", "1"]


def test_3_first_change_of_an_older_row_is_no_collision(chain: Directory) -> None:
    run(chain["a"], "UPDATE orders SET qty = 1")
    report = deferred.push(chain["a"], "b")
    assert (report.transactions, report.errors) == (1, 0)
    assert [row[2] for row in rows(chain["b"])] == [1]


def test_4_change_for_two_masters_is_queued_once(chain: Directory) -> None:
    run(chain["b"], "UPDATE orders SET qty = 3")
    assert run(chain["b"], 'SELECT count(*) FROM snaptide."def$_orders"') == [(1,)]
    assert queued(chain["b"]) == 1
    assert push_all(chain) == 2
    assert [queued(site) for site in chain.values()] == [0, 0, 0]
    assert [row[2] for row in assert_masters_equal(chain, "a", "b", "c")] == [3]


def test_5_and_6_changes_follow_the_paths_and_do_not_come_back(
    chain: Directory,
) -> None:
    run(chain["a"], "UPDATE orders SET qty = 1")
    deferred.push(chain["a"], "b")
    asked = "SELECT origin, origin_transaction FROM snaptide.deferred_transaction"
    made = run(chain["a"], "SELECT xid::text FROM snaptide.deferred_transaction")
    assert run(chain["b"], asked) == [("a", made[0][0])]
    assert deferred.push(chain["b"], "a").transactions == 0
    assert deferred.push(chain["b"], "c").transactions == 1
    assert deferred.push(chain["c"], "b").transactions == 0
    assert (arrived(chain["c"]), arrived(chain["a"])) == ({"a": ("b", 1)}, {})


def test_7_row_that_is_updated_twice_is_sent_in_both_steps(chain: Directory) -> None:
    run(chain["a"], "UPDATE orders SET qty = 1")
    run(chain["a"], "UPDATE orders SET qty = 2, price = 1")
    assert deferred.push(chain["a"], "b").transactions == 2
    steps = [(old["qty"], new["qty"]) for _, _, old, new in calls(chain["b"])]
    assert steps == [("0", "1"), ("1", "2")]


def test_8_collision_without_a_rule_is_kept_and_the_next_is_applied(
    chain: Directory,
) -> None:
    """Passive and SkipTransaction; here the error queue keeps it, at the target."""
    run(chain["a"], "UPDATE orders SET qty = 1")
    run(chain["b"], "UPDATE orders SET qty = 2")
    run(chain["a"], "INSERT INTO orders (id) VALUES (2)")
    report = deferred.push(chain["a"], "b")
    assert (report.transactions, report.errors) == (2, 1)
    assert [row[:3] for row in rows(chain["b"])] == [(1, "a", 2), (2, None, None)]


def test_9_last_write_wins_at_all_masters(chain: Directory) -> None:
    """The later stamp wins everywhere; equal ones are settled by the site's rank."""
    for site in chain.values():
        rules.set_column_group(site, "orders", "all", ["qty", "at", "name"])
        rules.add_update_resolution(
            site, "orders", "all", "latest_timestamp", parameters={"column": "at"}
        )
        rules.add_update_resolution(
            site,
            "orders",
            "all",
            "priority_group",
            parameters={"column": "name", "priorities": {"c": 1, "b": 2, "a": 3}},
        )
    run(chain["a"], STAMPED.format(1, "2026-02-01"))
    run(chain["c"], STAMPED.format(3, "2026-03-01"))
    push_all(chain)
    assert [row[2] for row in assert_masters_equal(chain, "a", "b", "c")] == [3]
    run(chain["c"], STAMPED.format(5, "2026-04-01") + ", name = 'c'")
    run(chain["a"], STAMPED.format(4, "2026-04-01") + ", name = 'a'")
    push_all(chain)
    assert [deferred.list_errors(site) for site in chain.values()] == [[], [], []]
    assert [row[2] for row in assert_masters_equal(chain, "a", "b", "c")] == [4]


def test_10_higher_priority_wins_at_all_masters(chain: Directory) -> None:
    """Where none has one the lower site wins, by a rule of its own."""
    for site in chain.values():
        rules.set_column_group(site, "orders", "all", ["qty", "name"])
        rules.add_update_resolution(
            site,
            "orders",
            "all",
            "priority_group",
            parameters={"column": "name", "priorities": {"five": 5, "three": 3}},
        )
        rules.add_update_resolution(
            site,
            "orders",
            "all",
            "site_priority",
            parameters={"priorities": {"a": 3, "b": 2, "c": 1}},
        )
    run(chain["a"], "UPDATE orders SET qty = 3, name = 'three'")
    run(chain["c"], "UPDATE orders SET qty = 5, name = 'five'")
    push_all(chain)
    assert [row[2] for row in assert_masters_equal(chain, "a", "b", "c")] == [5]


def test_11_transaction_that_comes_twice_is_left_out_with_a_warning(
    chain: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a switch to another master; what it is, its origin and id say."""
    run(chain["a"], "UPDATE orders SET qty = qty + 1")
    deferred.push(chain["a"], "b")
    [(number,)] = run(
        chain["a"], "SELECT xid::text::bigint FROM snaptide.deferred_transaction"
    )
    watch = DuplicateWatch(
        group_id=group_id(chain["a"]),
        origin="a",
        first_no=number,
        end_no=number + 1,
        alone=True,
        whole=True,
    )
    with chain["b"].session() as connection:
        duplicate_watch.watch_for(connection, [watch])
    # It is queued once more, as if nobody knew that it has been sent.
    run(
        chain["a"],
        "UPDATE snaptide.delivery_row SET batch = NULL",
    )
    report = deferred.push(chain["a"], "b")
    assert (report.transactions, report.errors) == (1, 0)
    assert [row[2] for row in rows(chain["b"])] == [1]
    assert "arrived again through a: its changes of orders are left out" in caplog.text
    assert queued(chain["a"]) == 0


def test_16_read_only_masters_begin_nothing_and_take_what_fits(
    make_sites: Callable[..., Directory],
) -> None:
    """A protected one parks what it lacks; an unprotected one lets the row come."""
    sites = make_sites("a", "protected", "unprotected")
    found_group(sites, "a")
    for target in ("protected", "unprotected"):
        run(sites[target], f"CREATE TABLE orders ({ORDERS})")
        groups.add_master(
            sites["a"], GROUP, target, target_type=TargetType(f"{target}_read_only")
        )
    run(sites["a"], ROW)
    push_all(sites)
    with pytest.raises(psycopg.Error, match="is read-only at this master"):
        run(sites["protected"], "DELETE FROM orders")
    run(sites["unprotected"], "DELETE FROM orders")
    as_brought(sites["protected"], "DELETE FROM orders")
    run(sites["a"], "UPDATE orders SET qty = 1")
    assert deferred.push(sites["a"], "protected").errors == 1
    assert deferred.push(sites["a"], "unprotected").errors == 0
    assert [row[2] for row in rows(sites["unprotected"])] == [1]
    for target in ("protected", "unprotected"):
        assert calls(sites[target]) == []


def as_brought(site: Site, statement: str) -> None:
    """Change a protected master's rows as a push of another one does."""
    facts = json.dumps({"sources": {str(group_id(site)): "a"}})
    run(
        site,
        "SET LOCAL snaptide.origin = 'a'",
        f"SET LOCAL snaptide.transaction = '{facts}'",
        statement,
    )


def test_17_so_many_errors_and_the_site_pushes_nothing_more(chain: Directory) -> None:
    """Until they are settled: what follows stays queued, for all destinations."""
    run(chain["c"], "UPDATE orders SET qty = 9")
    for qty in (1, 2, 3):
        run(chain["b"], f"UPDATE orders SET qty = {qty}")
    with pytest.raises(TooManyErrors, match="2 transactions of b are parked at c"):
        deferred.push(chain["b"], "c", error_limit=2)
    for to in ("a", "c"):
        with pytest.raises(DestinationDisabled):
            deferred.push(chain["b"], to, error_limit=2)
    assert len(deferred.list_errors(chain["c"])) == 2
    deferred.delete_errors(chain["c"])
    for to in ("a", "c"):
        set_disabled(chain["b"], to, disabled=False)
    assert deferred.push(chain["b"], "c", error_limit=2).errors == 1
    assert deferred.push(chain["b"], "a", error_limit=2).transactions == 3
