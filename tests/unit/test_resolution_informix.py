"""Informix's rules, as far as one row tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from masters.errors import InvalidParameter
from masters.resolution import build
from masters.resolution.conflict import Conflict, Decision, Kind, Row
from tests.unit.conflicts import update_conflict

EARLY = datetime(2026, 3, 1, 8, tzinfo=UTC)
LATE = EARLY + timedelta(seconds=1)
SERVERS = {"hq": 1, "jfk": 2, "ewr": 3}
COLUMNS = ("id", "moment", "site")

APPLIED = Decision.SITE_WINS
DROPPED = Decision.IGNORE
LEFT = Decision.UNDECIDED


def row(moment: datetime | None, site: str = "hq") -> Row:
    return {"id": 1, "moment": moment, "site": site}


def conflict(
    kind: Kind,
    *,
    new: Row | None = None,
    current: Row | None = None,
    origin: str = "jfk",
    changed_at: datetime | None = None,
    deleted_at: datetime | None = None,
) -> Conflict:
    return Conflict(
        kind=kind,
        table=("public", "products"),
        column_group="sale" if kind is Kind.UPDATE else None,
        constraint="products_pkey" if kind is Kind.UNIQUENESS else None,
        columns=COLUMNS,
        old=None if kind is Kind.UNIQUENESS else row(EARLY),
        new=new,
        current=current,
        origin=origin,
        master="hq",
        changed_at=changed_at,
        deleted_at=deleted_at,
    )


def decide(method: str, asked: Conflict, **parameters: object) -> Decision:
    if method in ("informix_timestamp", "informix_delete_wins"):
        parameters = {"column": "moment", "servers": SERVERS, **parameters}
    answer = build(method, asked.kind, parameters, COLUMNS)(asked)
    assert answer.reason
    assert not answer.values
    return answer.decision


def insert(new: datetime, current: datetime) -> Conflict:
    return conflict(Kind.UNIQUENESS, new=row(new), current=row(current))


def update(new: datetime, current: datetime, origin: str = "jfk") -> Conflict:
    return conflict(Kind.UPDATE, new=row(new), current=row(current), origin=origin)


UPDATE_OF_MISSING = conflict(Kind.DELETE, new=row(LATE))
DELETE_OF_MISSING = conflict(Kind.DELETE, changed_at=LATE)
DELETE_OF_CHANGED = conflict(Kind.DELETE, current=row(LATE), changed_at=EARLY)


@pytest.mark.parametrize(
    ("asked", "decision"),
    [
        (insert(LATE, EARLY), DROPPED),
        (update(EARLY, LATE), APPLIED),
        (UPDATE_OF_MISSING, DROPPED),
        (DELETE_OF_MISSING, DROPPED),
        (DELETE_OF_CHANGED, APPLIED),
    ],
)
def test_ignore_applies_what_can_be_executed(asked, decision):
    assert decide("informix_ignore", asked) is decision


def test_acceptance_c6_13_ignore_drops_an_insert_on_an_existing_row():
    assert decide("informix_ignore", insert(LATE, EARLY)) is DROPPED


@pytest.mark.parametrize(
    ("asked", "decision"),
    [
        (insert(EARLY, LATE), APPLIED),
        (update(EARLY, LATE), APPLIED),
        (UPDATE_OF_MISSING, APPLIED),
        (DELETE_OF_MISSING, DROPPED),
        (DELETE_OF_CHANGED, APPLIED),
    ],
)
def test_always_makes_the_row_what_the_site_has(asked, decision):
    assert decide("informix_always", asked) is decision


def test_acceptance_c6_21_always_inserts_by_an_update_of_a_missing_row():
    assert decide("informix_always", UPDATE_OF_MISSING) is APPLIED


def test_acceptance_c6_14_an_older_update_is_discarded():
    assert decide("informix_timestamp", update(EARLY, LATE)) is Decision.MASTER_WINS
    assert decide("informix_timestamp", update(LATE, EARLY)) is APPLIED


@pytest.mark.parametrize(
    ("origin", "servers", "decision"),
    [
        ("jfk", {"jfk": 1, "hq": 2}, APPLIED),
        ("jfk", {"jfk": 3, "hq": 2}, Decision.MASTER_WINS),
        ("jfk", {"jfk": 2, "hq": 2}, LEFT),
        ("jfk", {"hq": 2}, LEFT),
        ("jfk", None, LEFT),
    ],
)
def test_acceptance_c6_14_of_equal_stamps_the_lower_server_wins(
    origin, servers, decision
):
    asked = update(EARLY, EARLY, origin=origin)
    assert decide("informix_timestamp", asked, servers=servers) is decision


def test_the_row_can_say_which_server_wrote_it():
    by_ewr = conflict(Kind.UPDATE, new=row(EARLY, "jfk"), current=row(EARLY, "ewr"))
    assert decide("informix_timestamp", by_ewr) is Decision.MASTER_WINS
    assert decide("informix_timestamp", by_ewr, server_column="site") is APPLIED


def test_stamps_are_compared_by_whole_seconds():
    asked = update(EARLY + timedelta(microseconds=999_999), EARLY)
    assert decide("informix_timestamp", asked) is Decision.MASTER_WINS
    assert decide("informix_timestamp", asked, servers=None) is LEFT


@pytest.mark.parametrize("method", ["informix_timestamp", "informix_delete_wins"])
def test_an_insert_on_an_existing_row_wins_or_is_dropped_by_its_stamp(method):
    assert decide(method, insert(LATE, EARLY)) is APPLIED
    assert decide(method, insert(EARLY, LATE)) is DROPPED


def test_acceptance_c6_15_timestamp_inserts_by_an_update_of_a_missing_row():
    assert decide("informix_timestamp", UPDATE_OF_MISSING) is APPLIED


def test_acceptance_c6_15_delete_wins_does_not():
    assert decide("informix_delete_wins", UPDATE_OF_MISSING) is LEFT


@pytest.mark.parametrize(
    ("second", "decision"), [(4, DROPPED), (6, APPLIED)], ids=["older", "newer"]
)
def test_acceptance_c6_16_what_was_deleted_later_stays_deleted(second, decision):
    """The row was deleted at 5; an update of 4 comes late, one of 6 brings it back."""
    late_update = conflict(
        Kind.DELETE,
        new=row(EARLY + timedelta(seconds=second)),
        deleted_at=EARLY + timedelta(seconds=5),
    )
    assert decide("informix_timestamp", late_update) is decision


@pytest.mark.parametrize(
    ("moment", "decision"), [(EARLY, DROPPED), (LATE + timedelta(1), APPLIED)]
)
def test_a_delete_is_as_old_as_its_transaction(moment, decision):
    asked = conflict(Kind.DELETE, current=row(LATE), changed_at=moment)
    assert decide("informix_timestamp", asked) is decision


def test_a_delete_of_unknown_age_is_left_to_the_next_rule():
    asked = conflict(Kind.DELETE, current=row(LATE))
    assert decide("informix_timestamp", asked) is LEFT


@pytest.mark.parametrize("method", ["informix_timestamp", "informix_delete_wins"])
def test_a_row_deleted_on_both_sides_stays_deleted(method):
    assert decide(method, DELETE_OF_MISSING) is DROPPED


def test_a_delete_wins_over_a_later_update():
    assert decide("informix_delete_wins", DELETE_OF_CHANGED) is APPLIED
    assert decide("informix_timestamp", DELETE_OF_CHANGED) is DROPPED


def test_of_two_updates_delete_wins_takes_the_newer():
    assert decide("informix_delete_wins", update(LATE, EARLY)) is APPLIED
    assert decide("informix_delete_wins", update(EARLY, LATE)) is Decision.MASTER_WINS


@pytest.mark.parametrize("moment", [None, 5, "2026-03-01", datetime(2026, 3, 1)])
def test_null_and_what_does_not_compare_are_undecided(moment):
    asked = update_conflict(COLUMNS, new=row(EARLY), current=row(moment))
    assert decide("informix_timestamp", asked) is LEFT


def test_infinity_is_the_latest_moment():
    assert decide("informix_timestamp", update(datetime.max, LATE)) is APPLIED


@pytest.mark.parametrize(
    "parameters",
    [
        {"column": "price"},
        {"column": "moment", "servers": []},
        {"column": "moment", "servers": {"hq": "1"}},
        {"column": "moment", "server_column": "price"},
    ],
)
@pytest.mark.parametrize("method", ["informix_timestamp", "informix_delete_wins"])
def test_parameters_are_checked_when_the_rule_is_added(method, parameters):
    with pytest.raises(InvalidParameter):
        build(method, Kind.UPDATE, parameters, COLUMNS)
