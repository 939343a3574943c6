"""Masters that only take changes: protected ones, and ones that take what comes."""

from collections.abc import Callable

import psycopg
import pytest

import deferred
import groups
from deferred.errors import ColumnRenamed
from groups import Path, TargetType
from groups.errors import BadPaths, TablesDiffer
from sites import Directory
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.linked_table import ORDERS, calls, rows, run

PROTECTED = TargetType.PROTECTED_READ_ONLY
UNPROTECTED = TargetType.UNPROTECTED_READ_ONLY


@pytest.fixture
def sites(make_sites: Callable[..., Directory]) -> Directory:
    """Two full peers, and a site that is not in the group yet."""
    made = make_sites("hq", "lax", "copy")
    found_group(made, "hq", "lax")
    return made


def test_protected_master_takes_changes_and_its_users_make_none(
    sites: Directory,
) -> None:
    run(sites["copy"], f"CREATE TABLE orders ({ORDERS})")
    groups.add_master(sites["hq"], GROUP, "copy", target_type=PROTECTED)
    run(sites["lax"], "INSERT INTO orders (id, qty) VALUES (1, 1)")
    assert push_all(sites) == 2
    assert len(assert_masters_equal(sites, "hq", "lax", "copy")) == 1
    for statement in ("UPDATE orders SET qty = 2", "TRUNCATE orders"):
        with pytest.raises(psycopg.Error, match="is read-only at this master"):
            run(sites["copy"], statement)
    assert calls(sites["copy"]) == []


def test_unprotected_master_takes_what_comes(sites: Directory) -> None:
    run(
        sites["copy"],
        "CREATE TABLE orders (seen timestamptz DEFAULT now(), at timestamptz,"
        " price numeric(10,2), qty int, name text, id int)",
        "INSERT INTO orders (id, qty) VALUES (1, 99), (3, 99)",
    )
    groups.add_master(sites["hq"], GROUP, "copy", target_type=UNPROTECTED)
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 1), (2, 2), (3, 3)")
    push_all(sites)
    run(sites["copy"], "UPDATE orders SET qty = 50 WHERE id = 1")
    run(sites["copy"], "DELETE FROM orders WHERE id = 2")
    run(sites["copy"], "DELETE FROM orders WHERE id = 3")
    run(sites["hq"], "UPDATE orders SET qty = qty + 10, name = 'n' || id")
    run(sites["hq"], "DELETE FROM orders WHERE id = 3")
    push_all(sites)
    assert deferred.list_errors(sites["copy"]) == []
    copied = run(sites["copy"], "SELECT id, name, qty FROM orders ORDER BY id")
    assert copied == [(1, "n1", 11), (2, "n2", 12)]
    assert calls(sites["copy"]) == []
    assert [row[0] for row in rows(sites["lax"])] == [1, 2]


@pytest.mark.parametrize("together", [1, 50_000])
def test_what_several_transactions_leave_as_it_was_is_written_too(
    sites: Directory, together: int
) -> None:
    run(sites["copy"], f"CREATE TABLE orders ({ORDERS})")
    groups.add_master(sites["hq"], GROUP, "copy", target_type=UNPROTECTED)
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (2, 2), (3, 3)")
    push_all(sites)
    run(sites["copy"], "INSERT INTO orders (id, qty) VALUES (1, 99)")
    run(sites["copy"], "UPDATE orders SET qty = 99 WHERE id = 2")
    run(sites["copy"], "DELETE FROM orders WHERE id = 3")
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 1)")
    run(sites["hq"], "DELETE FROM orders WHERE id = 1")
    run(sites["hq"], "UPDATE orders SET qty = 5")
    run(sites["hq"], "UPDATE orders SET qty = id")
    deferred.push(sites["hq"], "copy", group_max_calls=together)
    push_all(sites)
    assert len(assert_masters_equal(sites, "hq", "copy")) == 2


def test_tables_that_do_not_fit_are_refused(sites: Directory) -> None:
    run(sites["copy"], "CREATE TABLE orders (id int, name text, qty bigint)")
    with pytest.raises(TablesDiffer, match="column qty of type integer; it has bigint"):
        groups.add_master(sites["hq"], GROUP, "copy", target_type=UNPROTECTED)


def test_read_only_master_sends_nothing_on(sites: Directory) -> None:
    run(sites["copy"], f"CREATE TABLE orders ({ORDERS})")
    groups.add_master(sites["hq"], GROUP, "copy", target_type=PROTECTED)
    with pytest.raises(BadPaths, match="copy is read-only and cannot send changes on"):
        groups.set_paths(sites["hq"], GROUP, lambda names: groups.star(names, "copy"))
    chain = [
        Path(source=s, local=s, target=t) for s, t in (("hq", "lax"), ("lax", "hq"))
    ]
    with pytest.raises(BadPaths, match="Changes of hq do not reach copy"):
        groups.set_paths(sites["hq"], GROUP, lambda names: chain)


def test_partition_is_guarded_as_its_table_is(sites: Directory) -> None:
    for site in sites.values():
        run(
            site,
            "CREATE TABLE parts (id int PRIMARY KEY, qty int) PARTITION BY RANGE (id)",
            "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (50)",
            "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (50) TO (100)",
            f"CREATE TABLE orders ({ORDERS})" if site.name == "copy" else "SELECT 1",
        )
    groups.add_table(sites["hq"], GROUP, "parts")
    groups.add_master(sites["hq"], GROUP, "copy", target_type=PROTECTED)
    run(sites["hq"], "INSERT INTO low VALUES (1, 1)")
    push_all(sites)
    assert run(sites["copy"], "SELECT * FROM parts") == [(1, 1)]
    with pytest.raises(psycopg.Error, match="is read-only at this master"):
        run(sites["copy"], "UPDATE low SET qty = 2")
    with pytest.raises(psycopg.Error, match="cannot be truncated"):
        run(sites["lax"], "TRUNCATE low")
    groups.suspend(sites["hq"], GROUP)
    with pytest.raises(psycopg.Error, match="suspended it on"):
        run(sites["lax"], "UPDATE low SET qty = 2")
    groups.execute_ddl(sites["hq"], GROUP, "ALTER TABLE parts DETACH PARTITION high")
    run(sites["lax"], "INSERT INTO high VALUES (60, 1)", "TRUNCATE high")
    groups.resume(sites["hq"], GROUP)
    run(sites["lax"], "UPDATE low SET qty = 3")
    push_all(sites)
    assert run(sites["copy"], "SELECT * FROM parts") == [(1, 3)]


SWAP = (
    "ALTER TABLE orders RENAME name TO was",
    "ALTER TABLE orders RENAME note TO name",
    "ALTER TABLE orders RENAME was TO note",
)


@pytest.mark.parametrize(
    ("renamed", "back"),
    [
        (SWAP, SWAP),
        (SWAP[:1], ("ALTER TABLE orders RENAME was TO name",)),
    ],
    ids=["names swapped", "a new name"],
)
def test_columns_that_have_other_names_at_one_master(
    make_sites: Callable[..., Directory],
    renamed: tuple[str, ...],
    back: tuple[str, ...],
) -> None:
    """Its changes go to the columns that were meant; others come when they can."""
    sites = make_sites("hq", "lax")
    hq, lax = sites["hq"], sites["lax"]
    for site in (hq, lax):
        run(site, "CREATE TABLE orders (id int PRIMARY KEY, name text, note text)")
    found_group(sites, "hq", "lax")
    run(lax, *renamed, "INSERT INTO orders VALUES (1, 'name', 'note')")
    assert deferred.push(lax, "hq").errors == 0
    assert rows(hq) == [(1, "name", "note")]
    run(hq, "INSERT INTO orders VALUES (2, 'name', 'note')")
    with pytest.raises(ColumnRenamed, match="Column name of orders at lax is not"):
        deferred.push(hq, "lax")
    assert len(rows(lax)) == 1
    run(lax, *back)
    push_all(sites)
    assert_masters_equal(sites, "hq", "lax")
