"""Rows that come to a group's table and leave it with partitions fire no trigger."""

import psycopg
import pytest

import groups
from groups.differences import differences
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import application, rows, run

AWAY = "ALTER TABLE parts DETACH PARTITION high"
BACK = "ALTER TABLE parts ATTACH PARTITION high FOR VALUES FROM (50) TO (100)"


@prepared_once("hq", "lax")
def two(sites: Directory) -> None:
    """Two masters of a table with two partitions and a row in each."""
    for site in sites.values():
        run(
            site,
            "CREATE TABLE parts (id int PRIMARY KEY, qty int) PARTITION BY RANGE (id)",
            "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (50)",
            "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (50) TO (100)",
        )
    found_group(sites, "hq", "lax", tables=["parts"])
    run(sites["hq"], "INSERT INTO parts VALUES (1, 1), (60, 1)")
    push_all(sites)


def told(site: Site, *, tables: bool = False) -> list[str]:
    """Why rows of the table may differ."""
    return [one.why for one in differences(site, tables=tables) if one.rows is None]


@pytest.mark.parametrize(
    ("moves", "why"),
    [
        ((AWAY, "UPDATE high SET qty = 2", BACK), "high was detached and attached"),
        ((AWAY,), "high was detached"),
        ((AWAY, "DROP TABLE high"), "a partition was dropped"),
        (
            (
                "CREATE TABLE top (id int NOT NULL, qty int)",
                "INSERT INTO top VALUES (150, 1)",
                "ALTER TABLE parts ATTACH PARTITION top FOR VALUES FROM (100) TO (200)",
            ),
            "top was attached with rows",
        ),
    ],
    ids=["changed meanwhile", "detached", "dropped", "another table"],
)
def test_rows_that_came_or_went_with_a_partition_are_told(
    two: Directory, moves: tuple[str, ...], why: str
) -> None:
    for statement in moves:
        run(two["hq"], statement)
    push_all(two)
    assert rows(two["hq"], "parts") != rows(two["lax"], "parts")
    for tables in (False, True, False):
        [found] = told(two["hq"], tables=tables)
        assert why in found
        assert told(two["lax"], tables=tables) == []
    [hq, lax] = groups.show_group(two["lax"], GROUP).masters
    assert [one.rows for one in hq.different] == [None]
    assert lax.different == ()


def test_told_until_a_comparison_finds_the_rows_equal(two: Directory) -> None:
    run(two["hq"], AWAY)
    run(two["hq"], BACK)
    assert len(told(two["hq"])) == 1
    assert told(two["hq"], tables=True) == []
    assert told(two["hq"]) == []


def test_new_partition_without_rows_is_nothing_to_tell(two: Directory) -> None:
    run(
        two["hq"],
        "CREATE TABLE top PARTITION OF parts FOR VALUES FROM (100) TO (200)",
    )
    assert told(two["hq"]) == []
    run(two["hq"], "INSERT INTO parts VALUES (150, 1)")
    assert told(two["hq"]) == []


def test_ddl_of_the_group_leaves_nothing_to_tell_but_rows_that_come(
    two: Directory,
) -> None:
    groups.suspend(two["hq"], GROUP)
    groups.execute_ddl(two["hq"], GROUP, "ALTER TABLE parts ALTER qty TYPE bigint")
    groups.execute_ddl(two["hq"], GROUP, AWAY)
    assert told(two["hq"]) == told(two["lax"]) == []
    run(two["lax"], "UPDATE high SET qty = 2")
    groups.execute_ddl(two["hq"], GROUP, BACK)
    groups.resume(two["hq"], GROUP)
    assert [len(told(site)) for site in (two["hq"], two["lax"])] == [1, 1]


def test_transaction_that_began_before_sees_the_partition_come_and_go(
    two: Directory,
) -> None:
    with application(two["hq"]) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        run(two["hq"], AWAY)
        old.execute("SELECT FROM public.low")
        run(two["hq"], BACK)
        old.execute("UPDATE public.high SET qty = 5")
        old.commit()
        push_all(two)
        assert rows(two["lax"], "parts") == [(1, 1), (60, 5)]
        old.execute("SELECT FROM public.low")
        run(two["hq"], AWAY)
        old.execute("UPDATE public.high SET qty = 6")
        old.commit()
    push_all(two)
    assert rows(two["lax"], "parts") == [(1, 1), (60, 5)]
