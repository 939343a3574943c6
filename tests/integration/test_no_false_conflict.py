"""No conflict: values that only look different, and what nobody else changed."""

from itertools import product

import pytest

import deferred
from sites import Directory, Site
from tests.linked_table import as_refresh, link, rows, run

ROW = "id int PRIMARY KEY, v {}, n int"


def begun(sites: Directory, kind: str, there: str, here: str, table: str = "t") -> None:
    """Rows that were refreshed: they hold the same, perhaps spelled differently."""
    link(sites, table, ROW.format(kind))
    insert = f"INSERT INTO {table} SELECT g, {{}}, 0 FROM generate_series(1, 3) g"
    run(sites["hq"], insert.format(f"({there})::{kind}"))
    as_refresh(sites["jfk"], insert.format(f"({here})::{kind}"))


def push(sites: Directory) -> None:
    report = deferred.push(sites["jfk"])
    assert (report.errors, report.conflicts_resolved) == (0, 0)


SPELLED = [
    ("double precision", "0.1::float + 0.2::float", "'0.30000000000000004'"),
    ("double precision", "'-0'", "'0'"),
    ("double precision", "'NaN'", "'NaN'"),
    ("real", "16777217", "16777216"),
    ("numeric", "1.0", "1.00"),
    ("numeric", "'NaN'", "'NaN'"),
    ("numeric(10,2)", "1.5", "1.504"),
    ("char(5)", "'a'", "'a    '"),
    ("timestamptz", "'2026-10-25 02:30+02'", "'2026-10-25 00:30 UTC'"),
    ("timestamptz", "'infinity'", "'infinity'"),
    ("interval", "'1 day'", "'24 hours'"),
    ("json", "'{\"a\": 1}'", "'{\"a\": 1}'"),
    ("jsonb", '\'{"a": 1, "b": 2}\'', '\'{"b": 2, "a": 1}\''),
    ("float[]", "'{1, NaN}'", "'{1.0, NaN}'"),
]


def test_equal_values_that_are_spelled_differently(sites: Directory) -> None:
    for number, (kind, there, here) in enumerate(SPELLED):
        begun(sites, kind, there, here, f"t{number}")
        run(
            sites["jfk"],
            f"UPDATE t{number} SET n = 1 WHERE id = 1",
            f"UPDATE t{number} SET v = NULL WHERE id = 2",
            f"DELETE FROM t{number} WHERE id = 3",
        )
    push(sites)
    for number in range(len(SPELLED)):
        found = f"SELECT id, v IS NULL, n FROM t{number} ORDER BY id"
        assert run(sites["hq"], found) == [(1, False, 1), (2, True, 0)]


def _in_zone(site: Site, zone: str) -> None:
    name = site.url.database
    run(site, f"ALTER DATABASE \"{name}\" SET timezone = '{zone}'")
    site.close()


def test_hours_that_daylight_saving_repeats_or_skips(sites: Directory) -> None:
    """Each site has a zone of its own; each moment is written in UTC."""
    _in_zone(sites["hq"], "Europe/Berlin")
    _in_zone(sites["jfk"], "America/New_York")
    hours = ("2026-10-25 00:30", "2026-03-29 00:30", "2026-11-01 05:30")
    moments = list(enumerate(product(("timestamp", "timestamptz"), hours)))
    for number, (kind, hour) in moments:
        zone = " UTC" if kind == "timestamptz" else ""
        begun(sites, kind, f"'{hour}{zone}'", f"'{hour}{zone}'", f"t{number}")
    for step in range(4):
        for number, _ in moments:
            change = f"UPDATE t{number} SET v = v + interval '30 minutes', n = {step}"
            run(sites["jfk"], change)
        push(sites)
    for number, _ in moments:
        seconds = f"SELECT extract(epoch FROM v) FROM t{number}"
        assert run(sites["hq"], seconds) == run(sites["jfk"], seconds)


def test_row_updated_three_times_in_one_transaction(sites: Directory) -> None:
    begun(sites, "text", "'a'", "'a'")
    run(
        sites["jfk"],
        "UPDATE t SET v = 'b'",
        "UPDATE t SET v = 'c', n = 1",
        "UPDATE t SET v = 'd'",
    )
    push(sites)
    assert rows(sites["hq"], "t") == [(n, "d", 1) for n in (1, 2, 3)]


def test_same_value_written_twice(sites: Directory) -> None:
    begun(sites, "text", "'a'", "'a'")
    for _ in range(2):
        run(sites["jfk"], "UPDATE t SET v = 'b'", "UPDATE t SET v = 'b'")
    run(sites["jfk"], "UPDATE t SET v = 'b', n = n")
    push(sites)
    assert rows(sites["hq"], "t") == [(n, "b", 0) for n in (1, 2, 3)]


@pytest.mark.parametrize("statement", ["UPDATE t SET n = 1", "DELETE FROM t"])
def test_columns_that_the_snapshot_does_not_have(
    sites: Directory, statement: str
) -> None:
    link(
        sites,
        "t",
        "id int PRIMARY KEY, v text, n int",
        at_site="id int PRIMARY KEY, n int",
        carried=["id", "n"],
        refuse_new_keys=True,
    )
    run(sites["hq"], "INSERT INTO t VALUES (1, 'a', 0)")
    as_refresh(sites["jfk"], "INSERT INTO t VALUES (1, 0)")
    run(sites["hq"], "UPDATE t SET v = 'theirs'")
    run(sites["jfk"], statement)
    push(sites)
    left = [] if statement.startswith("DELETE") else [(1, "theirs", 1)]
    assert rows(sites["hq"], "t") == left
