"""What the main flows send and walk through: numbers that grow only on purpose."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks import walk
from benchmarks.walk import Walk

ALONE = "push of one call, no group anywhere"

#: By flow, the statements that it sends; a synchronous write sends its in pipelines.
STATEMENTS = {
    ALONE: 28,
    "refresh of one key": 47,
    "refresh of nothing": 10,
    "one change over three masters, two pushes": 60,
}


#: By flow, the most files of ours that it calls into.
FILES = {
    ALONE: 42,
    "refresh of one key": 57,
    "refresh of nothing": 27,
    "one change over three masters, two pushes": 48,
    "one synchronous write": 20,
}


@pytest.fixture(scope="module")
def found() -> Mapping[str, Walk]:
    return walk.measure()


def test_each_flow_sends_so_many_statements(found: Mapping[str, Walk]) -> None:
    assert {name: len(found[name].statements) for name in STATEMENTS} == STATEMENTS


def test_no_flow_walks_through_more_files(found: Mapping[str, Walk]) -> None:
    more = {
        name: sorted(found[name].files)
        for name, most in FILES.items()
        if len(found[name].files) > most
    }
    assert more == {}


def test_push_without_groups_runs_nothing_of_them(found: Mapping[str, Walk]) -> None:
    assert found[ALONE].packages()["groups"] == 0


def test_push_of_one_call_runs_nothing_for_streams_or_conflicts(
    found: Mapping[str, Walk],
) -> None:
    assert found[ALONE].files.isdisjoint(
        {
            "deferred/batches/gone_columns.py",
            "deferred/batches/lifting.py",
            "deferred/parked/decided_alone.py",
            "deferred/pushing/streams.py",
            "masters/apply/deletes.py",
            "masters/apply/detect.py",
            "masters/apply/links.py",
            "masters/apply/reached.py",
            "masters/apply/resolve.py",
            "masters/apply/settlement.py",
        }
    )


@pytest.mark.parametrize("name", ["refresh of one key", "refresh of nothing"])
def test_refresh_of_a_plain_snapshot_runs_nothing_for_others(
    found: Mapping[str, Walk], name: str
) -> None:
    """It has no condition, lens, group or contract, and nothing of it waits."""
    assert found[name].files.isdisjoint(
        {
            "deferred/pushing/push.py",
            "deferred/queues/target_columns.py",
            "masters/group_schema.py",
            "masters/log/site_ddl.py",
            "snapshots/creating/base_table.py",
            "snapshots/creating/follow_ddl.py",
            "snapshots/definitions/old_columns.py",
            "snapshots/definitions/parents.py",
            "snapshots/differences/failing_lens.py",
            "snapshots/differences/leaving.py",
            "snapshots/differences/moved.py",
            "snapshots/differences/own_keys.py",
            "snapshots/differences/ways.py",
            "snapshots/refreshing/extra_keys.py",
        }
    )
