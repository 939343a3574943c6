"""A branch sells a seat, headquarters adds a flight, and both have the same rows."""

import pytest

import deferred
import snapshots
from sites import Site
from tests.fix_sites import log
from tests.linked_table import parked, queued, rows, run
from tests.stories import refresh

# A snapshot is compared with its master table by Spark.
pytestmark = pytest.mark.usefixtures("spark")


def test_headquarters_and_branch_agree(hq: Site, jfk: Site) -> None:
    run(
        hq,
        "CREATE TABLE flight (id int PRIMARY KEY, seats int NOT NULL)",
        "INSERT INTO flight VALUES (1, 100)",
    )
    log(hq, "flight")
    snapshots.create(jfk, "flight", master="hq", updatable=True)
    refresh(jfk, "flight")

    run(jfk, "UPDATE flight SET seats = seats - 1 WHERE id = 1")
    assert queued(jfk) == 1
    deferred.push(jfk)
    assert queued(jfk) == 0
    assert parked(hq) == []

    run(hq, "INSERT INTO flight VALUES (2, 50)")
    assert rows(jfk, "flight") == [(1, 99)]
    refresh(jfk, "flight")
    assert rows(jfk, "flight") == rows(hq, "flight") == [(1, 99), (2, 50)]
