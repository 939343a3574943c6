"""Values that Python has no place for: they stop neither a push nor a rule."""

from datetime import time, timedelta

import pytest

import deferred
from sites import Directory
from tests.linked_table import link, run


@pytest.mark.parametrize(
    ("text", "kind", "nearest"),
    [
        ("24:00:00", "time", time.max),
        ("infinity", "interval", timedelta.max),
        ("-infinity", "interval", timedelta.min),
        ("178000000 years", "interval", timedelta.max),
        ("-178000000 years", "interval", timedelta.min),
    ],
)
def test_they_are_read_as_the_nearest_that_python_has(
    sites: Directory, pg_version: int, text: str, kind: str, nearest: object
) -> None:
    if "infinity" in text and pg_version < 17:  # not an interval there yet
        text = text.replace("infinity", "178000000 years")
    assert run(sites["hq"], f"SELECT '{text}'::{kind}") == [(nearest,)]


def test_a_row_with_such_a_value_is_parked_like_any_other(sites: Directory) -> None:
    link(sites, columns="id int PRIMARY KEY, at time, qty int")
    run(sites["jfk"], "INSERT INTO orders VALUES (1, '24:00', 1)")
    deferred.push(sites["jfk"])
    run(sites["hq"], "UPDATE orders SET qty = 2")
    run(sites["jfk"], "UPDATE orders SET qty = 3")
    assert deferred.push(sites["jfk"]).errors == 1
    assert run(sites["hq"], "SELECT at::text, qty FROM orders") == [("24:00:00", 2)]
