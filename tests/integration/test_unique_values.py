"""Unique values that pass from row to row, whatever is free for a moment meanwhile."""

import pytest

import deferred
import masters
from sites import Directory
from tests.linked_table import as_refresh, link, parked, rows, run, run_everywhere

NND = "UNIQUE NULLS NOT DISTINCT"


def pushed(sites: Directory, columns: str, before: str, *statements: str) -> None:
    """Do something at the site, where values may meet for a moment, and push it."""
    columns = f"id int PRIMARY KEY, {columns}"
    link(sites, "t", columns, at_site=f"{columns} DEFERRABLE")
    run_everywhere(sites, f"INSERT INTO t {before}")
    run(sites["jfk"], *statements)
    deferred.push(sites["jfk"])


def assert_arrived(sites: Directory) -> None:
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == rows(sites["jfk"], "t")


@pytest.mark.parametrize("kind", ["smallint", "int", "bigint", "text", "uuid"])
def test_swap_beside_the_null_that_is_a_value(sites: Directory, kind: str) -> None:
    of = "md5(g::text)::uuid" if kind == "uuid" else "g"
    pushed(
        sites,
        f"n {kind}, {NND} (n)",
        f"SELECT g, nullif({of}, {of.replace('g', '3')}) FROM generate_series(1, 3) g",
        "UPDATE t SET n = other.n FROM t other WHERE t.id + other.id = 3",
    )
    assert_arrived(sites)


def test_null_that_is_a_value_is_given_on(sites: Directory) -> None:
    pushed(
        sites,
        f"n int, {NND} (n)",
        "VALUES (1, 10), (2, 20), (3, NULL)",
        "UPDATE t SET n = CASE id WHEN 1 THEN NULL WHEN 2 THEN 10 ELSE 30 END",
    )
    assert_arrived(sites)


@pytest.mark.parametrize("fixed", ["NULL", "5"])
def test_swap_in_a_key_of_two_columns(sites: Directory, fixed: str) -> None:
    """The column that is parked keeps what it has, be it NULL."""
    pushed(
        sites,
        f"fixed int, n int, {NND} (fixed, n)",
        f"VALUES (1, {fixed}, 10), (2, {fixed}, 20), (3, NULL, NULL)",
        "UPDATE t SET n = 30 - n WHERE id < 3",
    )
    assert_arrived(sites)


def test_value_of_two_columns_passes_on_that_the_master_completed(
    sites: Directory,
) -> None:
    """The master changed the column that the taker leaves alone."""
    columns = "id int PRIMARY KEY, a int, b int, UNIQUE (a, b)"
    link(sites, "t", columns)
    masters.set_column_group(sites["hq"], "t", "first", ["a"])
    masters.set_column_group(sites["hq"], "t", "second", ["b"])
    run_everywhere(sites, "INSERT INTO t VALUES (1,1,1), (2,2,2), (3,4,4), (4,3,3)")
    as_refresh(sites["hq"], "UPDATE t SET b = b - 1 WHERE id = 2")
    as_refresh(sites["hq"], "UPDATE t SET b = b - 1 WHERE id = 3")
    run(
        sites["jfk"],
        "UPDATE t SET a = CASE id WHEN 1 THEN 5 WHEN 2 THEN 1 WHEN 3 THEN 3 ELSE 6 END",
    )
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == [(1, 5, 1), (2, 1, 1), (3, 3, 3), (4, 6, 3)]


@pytest.mark.parametrize("kind", ["varchar(1)", "smallint"])
def test_all_values_move_where_few_are_free(sites: Directory, kind: str) -> None:
    value = "chr(64 + g)" if kind == "varchar(1)" else "-32768 + 99 + g"
    pushed(
        sites,
        f"n {kind} NOT NULL, UNIQUE (n)",
        f"SELECT g, {value} FROM generate_series(1, 26) g",
        "UPDATE t SET n = other.n FROM t other WHERE other.id = 1 + t.id % 26",
    )
    assert_arrived(sites)


@pytest.mark.parametrize("ends", ["lowest", "lowest, highest"])
@pytest.mark.parametrize(
    ("kind", "bits"), [("smallint", 15), ("int", 31), ("bigint", 63)]
)
def test_numbers_at_the_ends_of_their_type_pass_on(
    sites: Directory, kind: str, bits: int, ends: str
) -> None:
    """Where one side has no room, a free number is on the other, or between."""
    last = 2**bits - 1
    numbers = {"lowest": [-last - 1, 3, 9], "lowest, highest": [-last - 1, 3, last]}
    values = ", ".join(f"({place}, {n})" for place, n in enumerate(numbers[ends], 1))
    pushed(
        sites,
        f"n {kind} NOT NULL, UNIQUE (n)",
        f"VALUES {values}",
        "UPDATE t SET n = other.n FROM t other WHERE other.id = 1 + t.id % 3",
    )
    assert_arrived(sites)


def test_replaced_row_keeps_the_column_that_was_parked(sites: Directory) -> None:
    """It stays in place, because a child moves away from it in the same transaction."""
    link(sites, "t", "id int PRIMARY KEY, a text, n int, UNIQUE (a, n)")
    link(sites, "child", "id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE")
    run_everywhere(
        sites, "INSERT INTO t VALUES (1, 'a', 1)", "INSERT INTO child VALUES (1, 1)"
    )
    run(
        sites["jfk"],
        "INSERT INTO t VALUES (3, 'c', 3)",
        "UPDATE child SET t = 3",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (1, 'a', 9), (2, 'a', 1)",
    )
    deferred.push(sites["jfk"])
    assert_arrived(sites)


DAYS = "VALUES (1, '2026-01-01'::date), (2, '2026-01-02')"


def test_value_that_nothing_can_stand_in_for_is_parked(sites: Directory) -> None:
    """The transaction waits in the error queue; others, and pushes, go on."""
    swap = "UPDATE t SET n = '2026-01-03'::date - id"
    pushed(sites, "n date NOT NULL, UNIQUE (n)", DAYS, swap)
    run(sites["jfk"], "INSERT INTO t VALUES (3, '2026-01-03')")
    deferred.push(sites["jfk"])
    assert [error[1:3] for error in parked(sites["hq"])] == [("error", "SNP-008")]
    assert [row[0] for row in rows(sites["hq"], "t")] == [1, 2, 3]
    [report] = deferred.retry_errors(sites["hq"])
    assert not report.applied
    assert "t_n_key" in report.reason


def test_value_that_nobody_takes_needs_nothing_to_stand_in(sites: Directory) -> None:
    later = "UPDATE t SET n = n + 10"
    pushed(sites, "n date NOT NULL, UNIQUE (n)", DAYS, later)
    assert_arrived(sites)
