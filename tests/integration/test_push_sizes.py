"""Sizes of groups and statements that a push is given, at their ends."""

from collections.abc import Mapping

import pytest

import deferred
from sites import Site
from tests.linked_table import link, rows, run


@pytest.mark.parametrize("limit", [1, 2**33, 2**80])
def test_groups_of_a_size_in_bytes(sites: Mapping[str, Site], limit: int) -> None:
    """A queue that takes more on disk, as after days without its destination."""
    link(sites)
    for n in range(3):
        run(sites["jfk"], f"INSERT INTO orders VALUES ({n}, 'n{n}', 1, 1, now())")
    report = deferred.push(sites["jfk"], group_max_bytes=limit)
    assert (report.transactions, report.errors) == (3, 0)
    assert rows(sites["hq"]) == rows(sites["jfk"])


@pytest.mark.parametrize("each", [True, False])
def test_more_values_than_a_statement_takes(
    sites: Mapping[str, Site], each: bool
) -> None:
    link(sites)
    wide = (
        "INSERT INTO orders SELECT i, 'n' || i, i, i, now() FROM generate_series(%s) i"
    )
    for rows_of in ("1, 2500", "2501, 5000") if each else ("1, 5000",):
        run(sites["jfk"], wide % rows_of)
    report = deferred.push(sites["jfk"], bulk_threshold=10**9)
    assert report.errors == 0
    assert rows(sites["hq"]) == rows(sites["jfk"])
