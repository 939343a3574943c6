"""Doctor advises partition columns where many sites read each other's changes."""

from __future__ import annotations

import pytest

import masters
import snapshots
from sites import Directory
from snapshots.definitions import snapshot
from snaptide import doctor, migrate
from snaptide.doctor import partitions
from tests.divided import AIRPORTS, divide
from tests.fix_worlds import prepared_once


@prepared_once("hq", *AIRPORTS, needs="spark")
def divided(sites: Directory) -> None:
    divide(sites)


def advice(sites: Directory) -> list[str]:
    found = doctor.examine(sites["jfk"], informed=True)
    return [one.todo for one in found if "--partition-columns" in one.todo]


def test_a_column_is_advised_from_many_sites_on(
    divided: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq = divided["hq"]
    masters.alter_snapshot_log(hq, "flights", partition_columns=["seats"])
    assert advice(divided) == []
    monkeypatch.setattr(partitions, "MANY", 3)
    (told,) = advice(divided)
    assert told.endswith("log alter hq flights --partition-columns seats,origin")
    masters.alter_snapshot_log(hq, "flights", partition_columns=["seats", "origin"])
    assert advice(divided) == []


def test_a_condition_by_which_a_log_tells_no_rows_is_passed_over(
    divided: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MANY", 3)
    masters.alter_snapshot_log(divided["hq"], "flights", partition_columns=[])
    assert len(advice(divided)) == 1
    snapshots.alter_condition(divided["jfk"], "flights", where="origin <> 'LAX'")
    assert advice(divided) == []


def test_nothing_is_advised_of_a_master_of_an_older_version(divided: Directory) -> None:
    hq = divided["hq"]
    masters.alter_snapshot_log(hq, "flights", partition_columns=[])
    with divided["jfk"].session() as connection:
        (one,) = snapshot.all_of(connection)
    migrate.downgrade(hq, "0071")
    with hq.session() as home:
        assert [*partitions.check(home, "jfk", "hq", one)] == []
