"""States of a destination: each ends by itself, whatever else keeps it closed."""

import uuid
from datetime import timedelta

import pytest

import deferred
from deferred.errors import DestinationDisabled, DestinationInvalid, DestinationJoins
from deferred.options import ErrorAction
from deferred.queues import destination_state
from deferred.queues.backlog import set_disabled, waiting_destinations
from sites import Directory, Site
from snaptide import reading
from snaptide.doctor import stopped
from tests.fix_worlds import prepared_once
from tests.linked_table import link, run


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """One transaction is queued, and it has waited for too long."""
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    deferred.set_budget(sites["jfk"], "hq", age=timedelta(milliseconds=1))


def states(site: Site) -> list[str]:
    [found] = deferred.list_destinations(site)
    with site.transaction() as connection:
        open_ = "hq" in waiting_destinations(connection)
        assert list(found.states) == destination_state.states_of(connection, "hq")
    assert open_ == all(one.state == "excused" for one in found.states)
    return [one.state for one in found.states]


def joins(site: Site, group: uuid.UUID, *joining: str) -> None:
    with site.transaction() as connection:
        destination_state.set_joining(connection, group, f"g{group.int}", joining)


def test_an_invalid_one_that_was_disabled_is_invalid_when_enabled(
    orders: Directory,
) -> None:
    jfk = orders["jfk"]
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)
    set_disabled(jfk, "hq", disabled=True)
    deferred.set_budget(jfk, "hq")
    assert states(jfk) == ["disabled", "invalid"]
    with pytest.raises(DestinationDisabled, match=r"hq has been disabled.* by hand"):
        deferred.push(jfk)
    set_disabled(jfk, "hq", disabled=False)
    assert states(jfk) == ["invalid"]
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)


def test_a_disabled_one_that_is_made_valid_stays_disabled(orders: Directory) -> None:
    jfk = orders["jfk"]
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)
    set_disabled(jfk, "hq", disabled=True)
    deferred.validate_destination(jfk, "hq")
    assert states(jfk) == ["disabled", "excused"]
    with pytest.raises(DestinationDisabled):
        deferred.push(jfk)
    set_disabled(jfk, "hq", disabled=False)
    assert deferred.push(jfk).transactions == 1


def test_only_an_invalid_one_is_excused(orders: Directory) -> None:
    jfk = orders["jfk"]
    deferred.validate_destination(jfk, "hq")
    assert states(jfk) == []
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)


def test_one_that_is_excused_meanwhile_does_not_become_invalid(
    orders: Directory,
) -> None:
    jfk = orders["jfk"]
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)
    deferred.validate_destination(jfk, "hq")
    with jfk.transaction() as connection:
        destination_state.invalidate(connection, "hq", "a push has read it before")
    assert states(jfk) == ["excused"]


def test_one_that_joins_two_groups_waits_for_both(orders: Directory) -> None:
    jfk, one, two = orders["jfk"], uuid.UUID(int=1), uuid.UUID(int=2)
    for group in (one, two, two):
        joins(jfk, group, "hq", "lga")
    set_disabled(jfk, "hq", disabled=True)
    assert states(jfk) == ["disabled", "joining", "joining"]
    set_disabled(jfk, "hq", disabled=False)
    joins(jfk, one)
    with pytest.raises(DestinationJoins, match="group g2"):
        deferred.push(jfk)
    joins(jfk, two)
    assert states(jfk) == []


def test_an_error_action_tells_why_it_disabled_one(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    deferred.set_budget(jfk, "hq")
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    with pytest.raises(deferred.DestinationQuiet) as told:
        deferred.push(jfk, error_action=ErrorAction.QUIET_DATABASE)
    [found] = deferred.list_destinations(jfk)
    [disabled] = found.states
    assert disabled.reason == told.value.message
    set_disabled(jfk, "hq", disabled=True)
    assert deferred.list_destinations(jfk)[0].states == (disabled,)


def test_doctor_tells_each_reason_and_how_to_end_it(orders: Directory) -> None:
    jfk = orders["jfk"]
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)
    set_disabled(jfk, "hq", disabled=True)
    with jfk.transaction() as connection:
        found = [
            one.todo
            for one in stopped.check(reading.read(connection), "jfk")
            if one.subject == "destination hq"
        ]
    assert found == [
        "snaptide push jfk hq --enable",
        "snaptide destination validate jfk hq",
    ]
