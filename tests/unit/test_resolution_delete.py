"""Delete conflicts by restore and ignore."""

from __future__ import annotations

import pytest

from masters.apply.resolve import RowResolution
from masters.resolution import Conflict, Decision, Kind
from masters.rules import Rule
from tests.unit.conflicts import delete_conflict, resolve

ROW = {"id": 1, "price": 10}
CHANGED = {"id": 1, "price": 11}

DELETED_AND_CHANGED = delete_conflict(current=CHANGED)
DELETED_TWICE = delete_conflict()
UPDATED_AND_DELETED = delete_conflict(old=ROW, new={"id": 1, "price": 12})


def by(conflict: Conflict, *methods: str) -> RowResolution:
    rules = [
        Rule(kind=Kind.DELETE, sequence_no=number, method=method)
        for number, method in enumerate(methods)
    ]
    return resolve([conflict], rules)


def test_acceptance_virtuoso_d7_8_a_stale_delete_is_ignored_and_the_row_stays():
    result = by(DELETED_AND_CHANGED, "ignore")
    assert result.ignored
    # The publication level stays: nobody is told anything.
    assert not result.origin_changed


def test_acceptance_virtuoso_d7_9_an_update_of_a_deleted_row_is_ignored():
    result = by(UPDATED_AND_DELETED, "ignore")
    assert result.ignored
    assert not result.origin_changed


def test_restore_keeps_the_row_and_sends_it_to_everyone():
    result = by(DELETED_AND_CHANGED, "restore")
    assert result.records[0].resolution.decision is Decision.MASTER_WINS
    assert result.ignored
    assert result.origin_changed
    assert result.columns == {}


@pytest.mark.parametrize("method", ["restore", "ignore"])
def test_a_row_deleted_on_both_sides_stays_deleted(method):
    result = by(DELETED_TWICE, method)
    assert result.ignored
    assert not result.origin_changed


def test_restore_has_nothing_to_give_back_of_a_row_that_is_gone():
    result = by(UPDATED_AND_DELETED, "restore")
    assert result.unresolved[0].reason == (
        "restore: the master has no row to give back"
    )
    assert by(UPDATED_AND_DELETED, "restore", "ignore").ignored


def test_between_two_masters_only_restore_makes_rows_equal():
    """One updates, the other deletes; each gets the other's change as a conflict."""
    here, there = DELETED_AND_CHANGED, UPDATED_AND_DELETED
    ignored = by(here, "ignore"), by(there, "ignore")
    assert [one.origin_changed for one in ignored] == [False, False]
    restored = by(here, "restore", "ignore"), by(there, "restore", "ignore")
    assert [one.origin_changed for one in restored] == [True, False]


def test_without_a_rule_a_delete_conflict_stays_unresolved():
    assert not by(DELETED_AND_CHANGED).resolved
