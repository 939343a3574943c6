"""What rows written as sets would meet at the master, and as the site wrote them not.

Constraints that sets, or values that stand in for others, fail: partial unique indexes,
exclusion constraints, CHECK, foreign keys, generated columns.
"""

from collections.abc import Mapping

import pytest

import deferred
from sites import Site
from sites.errors import NoFreeValue
from tests.linked_table import link, parked, rows, run, run_everywhere

FLAG = "id int PRIMARY KEY, who text, active boolean"
ROOM = "id int PRIMARY KEY, at int4range, EXCLUDE USING gist (at WITH &&)"
SEAT = "id int PRIMARY KEY, seat text NOT NULL UNIQUE CHECK (seat ~ '^[A-Z]+$')"
PERSON = "id int PRIMARY KEY, person int NOT NULL UNIQUE REFERENCES people"
DAY = "id int PRIMARY KEY, day date NOT NULL UNIQUE"
DOUBLE = "id int PRIMARY KEY, n int, d int GENERATED ALWAYS AS (n * 2) STORED UNIQUE"

CASES = {
    "a flag passes": (
        FLAG,
        "(1, 'a', true), (2, 'a', false)",
        ["active = false WHERE id = 1", "active = true WHERE id = 2"],
    ),
    "a flag passes back": (
        FLAG,
        "(1, 'a', false), (2, 'a', true)",
        ["active = false WHERE id = 2", "active = true WHERE id = 1"],
    ),
    "a range passes": (
        ROOM,
        "(1, '[1,5)'), (2, '[5,9)')",
        ["at = '[20,30)' WHERE id = 2", "at = '[5,9)' WHERE id = 1"],
    ),
    "a text of few passes": (
        SEAT,
        "(1, 'A'), (2, 'B')",
        ["seat = 'X' WHERE id = 1", "seat = 'A' WHERE id = 2"],
    ),
    "a reference passes": (
        PERSON,
        "(1, 1), (2, 2)",
        ["person = 3 WHERE id = 1", "person = 1 WHERE id = 2"],
    ),
    "a date passes": (
        DAY,
        "(1, '2026-01-01'), (2, '2026-01-02')",
        ["day = '2026-01-03' WHERE id = 2", "day = '2026-01-02' WHERE id = 1"],
    ),
    "a generated value passes": (
        DOUBLE,
        "(1, 1), (2, 2)",
        ["n = 3 WHERE id = 1", "n = 1 WHERE id = 2"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_site_could_write_is_written(
    sites: Mapping[str, Site], case: str
) -> None:
    columns, values, updates = CASES[case]
    hq, jfk = sites["hq"], sites["jfk"]
    run_everywhere(
        sites,
        "CREATE TABLE people (id int PRIMARY KEY)",
        "INSERT INTO people SELECT generate_series(1, 3)",
    )
    carried = [one.split()[0] for one in columns.split(", ") if "GENERATED" not in one]
    link(sites, columns=columns, carried=[c for c in carried if c != "EXCLUDE"])
    if columns == FLAG:
        run_everywhere(sites, "CREATE UNIQUE INDEX ON orders (who) WHERE active")
    names = ", ".join(c for c in carried if c != "EXCLUDE")
    run_everywhere(sites, f"INSERT INTO orders ({names}) VALUES {values}")
    run(jfk, *(f"UPDATE orders SET {one}" for one in updates))
    assert deferred.push(jfk).errors == 0
    assert rows(hq) == rows(jfk)


def test_a_row_deleted_makes_room_for_another(sites: Mapping[str, Site]) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, columns=ROOM)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, '[1,5)')")
    run(jfk, "DELETE FROM orders", "INSERT INTO orders VALUES (2, '[2,4)')")
    assert deferred.push(jfk).errors == 0
    assert rows(hq) == rows(jfk)


@pytest.mark.parametrize("kind", ["smallint", "int", "bigint"])
def test_positive_numbers_are_swapped_by_positive_ones(
    sites: Mapping[str, Site], kind: str
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, columns=f"id int PRIMARY KEY, n {kind} NOT NULL UNIQUE CHECK (n > 0)")
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3)")
    run(
        jfk,
        "UPDATE orders SET n = 9 WHERE id = 1",
        "UPDATE orders SET n = 1 WHERE id = 2",
        "UPDATE orders SET n = 2 WHERE id = 1",
    )
    assert deferred.push(jfk).errors == 0
    assert rows(hq) == [(1, 2), (2, 1), (3, 3)]


def test_what_is_refused_row_by_row_too_is_parked_as_before(
    sites: Mapping[str, Site],
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, columns=ROOM)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, '[1,5)'), (2, '[5,9)')")
    run(hq, "INSERT INTO orders VALUES (3, '[20,30)')")
    before = rows(hq)
    run(
        jfk,
        "UPDATE orders SET at = '[20,30)' WHERE id = 2",
        "UPDATE orders SET at = '[5,9)' WHERE id = 1",
    )
    assert deferred.push(jfk).errors == 1
    assert parked(hq) == [(1, "error", "23P01", [])]
    assert rows(hq) == before
    run(hq, "DELETE FROM orders WHERE id = 3")
    [retried] = deferred.retry_errors(hq)
    assert retried.applied
    assert rows(hq) == rows(jfk)


def test_retry_writes_row_by_row_where_nothing_stands_in(
    sites: Mapping[str, Site],
) -> None:
    """What has been parked for it when the rows one by one were refused too."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, columns=DAY)
    both = "INSERT INTO orders VALUES (1, '2026-01-01'), (2, '2026-01-02')"
    run_everywhere(sites, both)
    run(hq, "ALTER TABLE orders ADD CONSTRAINT shut CHECK (day < '2026-01-03')")
    before = rows(hq)
    run(
        jfk,
        "UPDATE orders SET day = '2026-01-03' WHERE id = 2",
        "UPDATE orders SET day = '2026-01-02' WHERE id = 1",
    )
    assert deferred.push(jfk).errors == 1
    assert parked(hq) == [(1, "error", NoFreeValue.code, [])]
    [refused] = deferred.retry_errors(hq)
    assert not refused.applied
    assert rows(hq) == before
    run(hq, "ALTER TABLE orders DROP CONSTRAINT shut")
    [retried] = deferred.retry_errors(hq)
    assert retried.applied
    assert rows(hq) == rows(jfk)
