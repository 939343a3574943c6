"""What Ingres Replicator promises, statement by statement, where groups keep it.

Elsewhere stand skipped rows and transactions, those that depend on them and quiet
databases (`integration/test_group_errors.py`), read-only targets
(`integration/test_group_targets.py`), kills around the commits
(`faults/test_push_killed.py`).
"""

from collections.abc import Callable

import pytest

import deferred
from masters import rules
from sites import Directory
from tests.grouped import arrived, assert_masters_equal, found_group, push_all
from tests.linked_table import ORDERS, queued, rows, run

ROW = "INSERT INTO orders VALUES (1, 'a', 0, 0, '2026-01-01')"
STAMPED = "UPDATE orders SET qty = {}, at = '{}'"


@pytest.fixture
def chain(make_sites: Callable[..., Directory]) -> Directory:
    """Masters a, b and c in a chain, with a row that was there before the group."""
    sites = make_sites("a", "b", "c")
    for site in sites.values():
        run(site, f"CREATE TABLE orders ({ORDERS})", ROW)
    found_group(sites, "a", "b", "c", via={"c": "b"})
    return sites


def test_changes_follow_the_paths_and_are_used_up(chain: Directory) -> None:
    # 7: updated twice before it is sent, a row takes both steps.
    run(chain["a"], "UPDATE orders SET qty = 1")
    run(chain["a"], "UPDATE orders SET qty = 2, price = 1")
    # 3: the first change of a row that is older than the group is no collision.
    assert deferred.push(chain["a"], "b").transactions == 2
    # 5: at b nothing waits for a, where it came from; 6: but for c it does.
    assert deferred.push(chain["b"], "a").transactions == 0
    assert deferred.push(chain["b"], "c").transactions == 2
    # 4: with two targets a change is queued once and delivered twice.
    run(chain["b"], "UPDATE orders SET qty = 3")
    asked = 'SELECT count(*) FROM snaptide."def$_orders" WHERE n3 = 3'
    assert run(chain["b"], asked) == [(1,)]
    assert push_all(chain) == 2
    assert [queued(site) for site in chain.values()] == [0, 0, 0]
    assert [row[2] for row in assert_masters_equal(chain, "a", "b", "c")] == [3]
    assert arrived(chain["c"]) == {"a": ("b", 2), "b": ("b", 1)}
    assert arrived(chain["a"]) == {"b": ("b", 1)}


def test_collision_without_a_rule_is_kept_and_the_next_is_applied(
    chain: Directory,
) -> None:
    """8: Passive and SkipTransaction; here the error queue keeps it, at the target."""
    run(chain["a"], "UPDATE orders SET qty = 1")
    run(chain["b"], "UPDATE orders SET qty = 2")
    run(chain["a"], "INSERT INTO orders (id) VALUES (2)")
    report = deferred.push(chain["a"], "b")
    assert (report.transactions, report.errors) == (2, 1)
    assert [row[:3] for row in rows(chain["b"])] == [(1, "a", 2), (2, None, None)]


def test_last_write_wins_at_all_masters(chain: Directory) -> None:
    """9: the later stamp wins everywhere; equal ones are settled by the site's rank."""
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
