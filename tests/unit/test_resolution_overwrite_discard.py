"""Overwrite takes the site's values, discard keeps the master's."""

from __future__ import annotations

from masters.resolution import Decision, Kind
from masters.resolution.plain import Discard, Overwrite
from tests.unit.conflicts import uniqueness_conflict, update_conflict


def test_overwrite_takes_the_new_values():
    answer = Overwrite.build({}, ["price"])(update_conflict())
    assert (answer.decision, answer.values) == (Decision.SITE_WINS, {})


def test_discard_keeps_the_current_values():
    answer = Discard.build({}, ["price"])(update_conflict())
    assert (answer.decision, answer.values) == (Decision.MASTER_WINS, {})


def test_discard_drops_the_incoming_row_of_a_uniqueness_conflict():
    answer = Discard.build({}, ["code"])(uniqueness_conflict())
    assert answer.decision is Decision.IGNORE


def test_overwrite_settles_update_conflicts_alone():
    assert Overwrite.kinds == {Kind.UPDATE}
    assert Discard.kinds == {Kind.UPDATE, Kind.UNIQUENESS}
