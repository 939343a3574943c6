"""A first load of few rows of a large table reads these, where an index finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import snapshots
from sites import Site
from sites.conditions import ranges
from snapshots.differences import parallel_copy
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ranges each first load copies; a range has 64 kB."""
    counts: list[int] = []
    copy = parallel_copy.run

    def run_counted(master: Site, site: Site, jobs: Sequence[Any], *more: Any) -> int:
        counts.append(len(jobs))
        return copy(master, site, jobs, *more)

    monkeypatch.setattr(ranges, "PART_BYTES", 65536)
    monkeypatch.setattr(parallel_copy, "run", run_counted)
    return counts


def test_a_branch_of_a_large_table_is_copied_at_once(
    hq: Site, jfk: Site, copied: list[int]
) -> None:
    run(
        hq,
        "CREATE TABLE sale (id int PRIMARY KEY, branch int, of_all int)",
        "INSERT INTO sale SELECT g, g % 100, g % 100 FROM generate_series(1, 9000) g",
        "CREATE INDEX ON sale (branch)",
        "ANALYZE sale",
    )
    log(hq, "sale")
    for name, where in (
        ("by_index", "branch = 7"),
        ("read_all", "of_all = 7"),
        ("most", "branch >= 3"),
    ):
        snapshots.create(jfk, name, master="hq", table="sale", where=where)
        refresh(jfk, name)
    by_index, read_all, most = copied
    assert by_index == 1
    assert read_all == most > 3
    assert_equal_to_master(jfk)
