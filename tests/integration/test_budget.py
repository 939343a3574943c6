"""A destination that is away costs queue rows, pauses, and in the end its validity."""

import logging
from datetime import timedelta

import pytest

import deferred
from deferred import tasks
from deferred.errors import DestinationInvalid, NoSuchDestination
from deferred.queues import backlog
from deferred.queues.backlog import Backlog
from sites import Directory, Site, configured
from sites.errors import SiteUnreachable
from tests.fix_worlds import prepared_once
from tests.linked_table import link, queued, rows, run

LITTLE = timedelta(milliseconds=1)


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two transactions of three calls are queued, one of them in two queues."""
    link(sites)
    link(sites, "notes", "id int PRIMARY KEY, note text")
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    run(
        sites["jfk"],
        "INSERT INTO orders (id) VALUES (2)",
        "INSERT INTO notes VALUES (1, repeat('x', 1000))",
    )


@pytest.fixture
def away(orders: Directory) -> Directory:
    """The same, with a master that does not answer."""
    here = orders["jfk"].url.render_as_string(hide_password=False)
    return Directory({"jfk": here, "hq": "postgresql://u:p@127.0.0.1:1/hq"})


def waits(site: Site) -> Backlog:
    with site.transaction() as connection:
        return backlog.backlog_of(connection, "hq")


def tried(site: Site) -> list[str]:
    with site.transaction() as connection:
        return list(backlog.waiting_destinations(connection))


def test_depth_size_and_age_of_a_queue_are_told(orders: Directory) -> None:
    jfk = orders["jfk"]
    found = waits(jfk)
    assert (found.transactions, found.calls) == (2, 3)
    assert 1000 < found.bytes < 2000
    assert run(jfk, "SELECT min(start_time) FROM snaptide.deferred_transaction") == [
        (found.oldest,)
    ]
    deferred.push(jfk)
    found = waits(jfk)
    assert (found.transactions, found.calls, found.bytes) == (0, 0, 0)
    assert found.oldest is None


def test_what_a_batch_holds_still_waits(orders: Directory, away: Directory) -> None:
    """The window is open and the batch is cut when the pusher ends."""
    jfk = orders["jfk"]
    deferred.push(jfk, transaction_count=1)
    assert (waits(jfk).transactions, waits(jfk).calls) == (1, 2)


@pytest.mark.parametrize(
    ("age", "size", "said"),
    [
        (LITTLE, None, "oldest transaction has waited"),
        (None, 999, "bytes of calls are"),
    ],
)
def test_over_its_budget_a_destination_is_invalid(
    orders: Directory,
    age: timedelta | None,
    size: int | None,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    jfk = orders["jfk"]
    deferred.set_budget(jfk, "hq", age=age, size=size)
    with caplog.at_level(logging.WARNING), pytest.raises(DestinationInvalid) as caught:
        deferred.push(jfk)
    assert said in caught.value.message
    assert said in caplog.text
    [invalid] = waits(jfk).states
    assert invalid.state == "invalid"
    assert said in invalid.reason
    assert tried(jfk) == []
    # Users do not notice.
    run(jfk, "INSERT INTO orders (id) VALUES (3)")
    with pytest.raises(DestinationInvalid, match="has been invalid since"):
        deferred.push(jfk)
    assert queued(jfk) == 3
    assert rows(orders["hq"]) == []


def test_a_larger_budget_alone_makes_nothing_valid(orders: Directory) -> None:
    """Somebody has to look at what waits, and say so."""
    jfk = orders["jfk"]
    deferred.set_budget(jfk, "hq", size=1)
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)
    deferred.set_budget(jfk, "hq")
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)


def test_made_valid_it_gets_all_that_waits(orders: Directory) -> None:
    jfk = orders["jfk"]
    deferred.set_budget(jfk, "hq", age=LITTLE)
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)
    [excused] = deferred.validate_destination(jfk, "hq").states
    assert excused.state == "excused"
    # In two runs, the second still over the budget.
    assert deferred.push(jfk, transaction_count=1).transactions == 1
    assert deferred.push(jfk).transactions == 1
    assert rows(orders["hq"]) == rows(jfk)
    # Within its budget once, the budget counts again.
    assert deferred.push(jfk).transactions == 0
    assert waits(jfk).states == ()
    run(jfk, "INSERT INTO orders (id) VALUES (3)")
    with pytest.raises(DestinationInvalid):
        deferred.push(jfk)


def test_within_its_budget_nothing_happens(orders: Directory) -> None:
    jfk = orders["jfk"]
    deferred.set_budget(jfk, "hq", age=timedelta(days=1), size=10_000)
    assert deferred.push(jfk).transactions == 2
    assert waits(jfk).states == ()


def test_a_budget_needs_a_destination(orders: Directory) -> None:
    for change in (deferred.set_budget, deferred.validate_destination):
        with pytest.raises(NoSuchDestination):
            change(orders["jfk"], "lga")
    with pytest.raises(ValueError, match="negative"):
        deferred.set_budget(orders["jfk"], "hq", size=-1)


def test_a_master_that_is_away_is_left_alone_longer_each_time(
    orders: Directory, away: Directory
) -> None:
    jfk = orders["jfk"]
    assert tried(jfk) == ["hq"]
    pauses = []
    for _ in range(9):
        with pytest.raises(SiteUnreachable):
            deferred.push(away["jfk"])
        pauses.append(
            run(
                jfk,
                "SELECT extract(epoch FROM retry_at - last_error_at)"
                " FROM snaptide.destination",
            )[0][0]
        )
    away.close()
    for failures, pause in enumerate(pauses):
        longest = min(2**failures, backlog.LONGEST_PAUSE)
        assert longest / 2 <= pause <= longest + 0.5
    assert tried(jfk) == []
    # A clock that was wrong and is set right does not make the pause longer.
    run(jfk, "UPDATE snaptide.destination SET retry_at = now() + interval '1 day'")
    assert tried(jfk) == ["hq"]
    # Who asks by hand need not wait.
    assert deferred.push(jfk).transactions == 2
    assert waits(jfk).retry_at is None
    run(jfk, "INSERT INTO orders (id) VALUES (3)")
    assert tried(jfk) == ["hq"]


def test_tasks_do_not_add_up_while_a_master_is_away(
    orders: Directory, away: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule asks every few seconds; what failed is repeated by itself."""
    monkeypatch.setattr(configured, "site", away.__getitem__)
    jfk = orders["jfk"]
    run(jfk, "UPDATE snaptide.destination SET failures = 5")
    with pytest.raises(SiteUnreachable):
        tasks.push("jfk", "hq")
    run(
        jfk,
        "UPDATE snaptide.destination SET last_error_at = '2001-01-01'",
    )
    tasks.push("jfk", "hq")
    tasks.push("jfk")
    away.close()
    assert waits(jfk).last_error_at is not None
    assert run(
        jfk, "SELECT last_error_at < '2002-01-01' FROM snaptide.destination"
    ) == [(True,)]
