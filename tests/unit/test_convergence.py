"""Which methods keep the masters equal (the table of semantics A.8)."""

from __future__ import annotations

import pytest

from masters.convergence import diverges
from masters.resolution import METHODS


@pytest.mark.parametrize("method", sorted(METHODS))
def test_one_master_decides_for_all_its_snapshots(method):
    assert diverges(method, masters=1, snapshots=50) is None


@pytest.mark.parametrize("method", ["additive", "latest_timestamp"])
def test_these_converge_with_any_number_of_masters(method):
    assert diverges(method, masters=5, snapshots=5) is None


@pytest.mark.parametrize("method", ["overwrite", "discard", "custom"])
def test_these_are_for_one_master(method):
    assert diverges(method, masters=2, snapshots=0)


def test_site_priority_is_for_one_master_with_snapshots_or_two_masters():
    assert diverges("site_priority", masters=2, snapshots=0) is None
    assert diverges("site_priority", masters=2, snapshots=1)
    assert diverges("site_priority", masters=3, snapshots=0)
