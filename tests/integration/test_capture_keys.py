"""Capture of keys that move among the rows of one statement."""

import pytest

import deferred
from sites import Directory
from tests.linked_table import as_refresh, kinds, link, parked, rows, run

# Keys that are checked at the end of the statement can be swapped in it.
COLUMNS = "id int, name text, PRIMARY KEY (id) DEFERRABLE"


@pytest.fixture
def items(sites: Directory) -> Directory:
    """Three items at both sites, with a key that can move."""
    link(sites, "items", COLUMNS)
    for site in sites.values():
        as_refresh(site, "INSERT INTO items VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return sites


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "UPDATE items SET id = id + 1 WHERE id IN (1, 2, 3)",
            [(2, "a"), (3, "b"), (4, "c")],
        ),
        (
            "UPDATE items SET id = CASE id WHEN 1 THEN 2 ELSE 1 END WHERE id < 3",
            [(1, "b"), (2, "a"), (3, "c")],
        ),
        (
            "UPDATE items SET id = id % 3 + 1",
            [(1, "c"), (2, "a"), (3, "b")],
        ),
    ],
    ids=["chain", "swap", "ring"],
)
def test_keys_move_in_one_statement(
    items: Directory, statement: str, expected: list[tuple[int, str]]
) -> None:
    run(items["jfk"], statement)
    assert rows(items["jfk"], "items") == expected
    deferred.push(items["jfk"])
    assert rows(items["hq"], "items") == expected
    assert parked(items["hq"]) == []


def test_swap_pairs_images_by_key(items: Directory) -> None:
    run(items["jfk"], "UPDATE items SET id = 3 - id WHERE id < 3")
    assert sorted(kinds(items["jfk"])) == [("U", "1"), ("U", "2")]


def test_swap_in_several_statements(items: Directory) -> None:
    run(
        items["jfk"],
        "UPDATE items SET id = 9 WHERE id = 1",
        "UPDATE items SET id = 1 WHERE id = 2",
        "UPDATE items SET id = 2 WHERE id = 9",
    )
    deferred.push(items["jfk"])
    assert rows(items["hq"], "items") == [(1, "b"), (2, "a"), (3, "c")]


def test_swap_with_the_check_put_off(items: Directory) -> None:
    run(
        items["jfk"],
        "SET CONSTRAINTS ALL DEFERRED",
        "UPDATE items SET id = 2 WHERE name = 'a'",
        "UPDATE items SET id = 1 WHERE name = 'b'",
    )
    deferred.push(items["jfk"])
    assert rows(items["hq"], "items") == [(1, "b"), (2, "a"), (3, "c")]
    assert parked(items["hq"]) == []


def test_swap_reaches_a_master_whose_key_is_checked_at_once(sites: Directory) -> None:
    plain = "id int PRIMARY KEY, name text"
    link(sites, "items", plain, at_site=COLUMNS)
    for site in sites.values():
        as_refresh(site, "INSERT INTO items VALUES (1, 'a'), (2, 'b')")
    run(sites["jfk"], "UPDATE items SET id = 3 - id")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "items") == [(1, "b"), (2, "a")]


def test_moved_key_takes_over_from_a_deleted_row(items: Directory) -> None:
    run(
        items["jfk"],
        "DELETE FROM items WHERE id = 2",
        "UPDATE items SET id = 2 WHERE id = 1",
    )
    deferred.push(items["jfk"])
    assert rows(items["hq"], "items") == [(2, "a"), (3, "c")]
