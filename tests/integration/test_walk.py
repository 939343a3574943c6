"""How many statements the main flows send: a number that grows only on purpose."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks import walk
from benchmarks.walk import Walk

ALONE = "push of one call, no group anywhere"

#: By flow, the statements that it sends; a synchronous write sends its in pipelines.
STATEMENTS = {
    ALONE: 28,
    "refresh of one key": 48,
    "refresh of nothing": 10,
    "one change over three masters, two pushes": 60,
}


@pytest.fixture(scope="module")
def found() -> Mapping[str, Walk]:
    return walk.measure()


def test_each_flow_sends_so_many_statements(found: Mapping[str, Walk]) -> None:
    assert {name: len(found[name].statements) for name in STATEMENTS} == STATEMENTS


def test_push_without_groups_runs_nothing_of_them(found: Mapping[str, Walk]) -> None:
    assert found[ALONE].packages()["groups"] == 0


def test_push_of_one_call_runs_nothing_for_streams_or_conflicts(
    found: Mapping[str, Walk],
) -> None:
    assert found[ALONE].files.isdisjoint(
        {
            "deferred/parked/decided_alone.py",
            "deferred/pushing/streams.py",
            "masters/apply/at_once.py",
            "masters/apply/deletes.py",
            "masters/apply/links.py",
            "masters/apply/resolve.py",
        }
    )
