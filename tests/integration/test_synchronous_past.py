"""What an application does past the coordinator is at both sides, or refused."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text

import synchronous
from sites import Directory
from sites.sessions.exchange import raw
from synchronous.errors import CommitFailed, TransactionControl
from tests.coordinated import left_over, quantities
from tests.fix_worlds import prepared_once
from tests.linked_table import link, run_everywhere

BEFORE = {1: 1, 2: 2}

ONE = text("UPDATE orders SET qty = 7 WHERE id = 1")
OTHER = text("UPDATE orders SET qty = 8 WHERE id = 2")


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """Two rows at both sites, propagated synchronously."""
    link(sites, "orders", "id int PRIMARY KEY, qty int", synchronous=True)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 1), (2, 2)")


def assert_both(sites: Directory, expected: dict[int, Any]) -> None:
    assert [quantities(site) for site in sites.values()] == [expected, expected]
    assert left_over(sites) == {}


def test_rows_of_a_copy_before_a_savepoint_are_not_undone_with_it(
    linked: Directory,
) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        with raw(connection).cursor().copy("COPY orders (id) FROM STDIN") as copy:
            copy.write("50\n51\n")
        savepoint = connection.begin_nested()
        connection.execute(ONE)
        savepoint.rollback()
        connection.execute(OTHER)

    assert_both(linked, {1: 1, 2: 8, 50: None, 51: None})


@pytest.mark.parametrize(
    ("setting", "back"),
    [
        ("/* app */ SAVEPOINT a", "ROLLBACK TO SAVEPOINT a"),
        ("SAVEPOINT a -- app", "/* app */ rollback to A /* app */;"),
        ('SAVEPOINT "A ""b"', 'ROLLBACK TO "A ""b" -- app'),
    ],
)
def test_savepoints_with_comments_keep_step(
    linked: Directory, setting: str, back: str
) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text(setting))
        connection.execute(ONE)
        connection.execute(text(back))
        connection.execute(OTHER)

    assert_both(linked, {1: 1, 2: 8})


def test_a_savepoint_that_is_released_with_a_comment_is_gone(linked: Directory) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        outer = connection.begin_nested()
        connection.execute(text("SAVEPOINT a -- app"))
        connection.execute(ONE)
        connection.execute(text("RELEASE a -- app"))
        outer.commit()
        connection.execute(OTHER)

    assert_both(linked, {1: 7, 2: 8})


def back_in_one_string(connection: Connection) -> None:
    connection.execute(text("SAVEPOINT a"))
    connection.execute(ONE)
    connection.execute(text("SELECT 1; ROLLBACK TO SAVEPOINT a"))


def back_by_the_driver(connection: Connection) -> None:
    raw(connection).execute("SAVEPOINT a")
    connection.execute(ONE)
    raw(connection).execute("ROLLBACK TO SAVEPOINT a")


def over_in_one_string(connection: Connection) -> None:
    connection.execute(ONE)
    connection.execute(text("SELECT 1; ROLLBACK"))


def over_by_the_driver(connection: Connection) -> None:
    connection.execute(ONE)
    raw(connection).rollback()


@pytest.mark.parametrize("then", [[], [OTHER]], ids=["committed", "gone on with"])
@pytest.mark.parametrize(
    "undo",
    [back_in_one_string, back_by_the_driver, over_in_one_string, over_by_the_driver],
)
def test_what_is_undone_past_the_coordinator_is_committed_nowhere(
    linked: Directory, undo: Callable[[Connection], None], then: list[Any]
) -> None:
    def work() -> None:
        with synchronous.begin(linked["jfk"]) as connection:
            undo(connection)
            for statement in then:
                connection.execute(statement)

    with pytest.raises(CommitFailed, match="undone without its coordinator"):
        work()

    assert_both(linked, BEFORE)


def test_a_savepoint_that_the_coordinator_did_not_see_is_named(
    linked: Directory,
) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(
            text("SAVEPOINT mine; UPDATE orders SET qty = 7 WHERE id = 1")
        )
        with pytest.raises(TransactionControl, match="Savepoint mine"):
            connection.execute(text("ROLLBACK TO SAVEPOINT mine"))
        connection.rollback()

    assert_both(linked, BEFORE)
