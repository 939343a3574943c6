"""A captured column is its number, whatever it is called and wherever it stands.

PostgreSQL numbers the columns of each table anew: a partition that was attached after
ADD COLUMN has them in another order.
"""

from collections.abc import Iterator

import psycopg
import pytest

import deferred
import masters
from deferred.queues import define
from sites import Directory, Site
from tests.linked_table import application, calls, link, queued, rows, run, run_each

User = psycopg.Connection[tuple[object, ...]]

PARTS = "id int, v int, note text, PRIMARY KEY (id)"

#: Three ways in which a table comes to have its columns elsewhere than its parent.
LEAVES = {
    "a partition": (
        f"{PARTS}) PARTITION BY RANGE (id",
        "CREATE TABLE leaf (note text, id int NOT NULL, gone int, v int)",
        "ALTER TABLE leaf DROP gone",
        "ALTER TABLE orders ATTACH PARTITION leaf DEFAULT",
    ),
    "a partition of a partition": (
        f"{PARTS}) PARTITION BY RANGE (id",
        "CREATE TABLE middle (v int, note text, id int) PARTITION BY RANGE (id)",
        "ALTER TABLE middle ALTER id SET NOT NULL",
        "CREATE TABLE leaf (note text, v int, id int NOT NULL)",
        "ALTER TABLE middle ATTACH PARTITION leaf DEFAULT",
        "ALTER TABLE orders ATTACH PARTITION middle DEFAULT",
    ),
    "a child": (
        PARTS,
        "CREATE TABLE leaf (note text, id int NOT NULL, v int)",
        "ALTER TABLE leaf INHERIT orders",
    ),
}


@pytest.fixture(params=LEAVES)
def leaf(request: pytest.FixtureRequest, sites: Directory) -> Directory:
    """A table at jfk, queued for hq, with a part in which columns stand elsewhere."""
    table, *parts = LEAVES[request.param]
    link(sites, columns=PARTS, at_site=table, parts=parts)
    return sites


@pytest.fixture
def user(sites: Directory) -> Iterator[User]:
    """A session at jfk that is open all the time; each statement is a transaction."""
    with application(sites["jfk"]) as connection:
        connection.autocommit = True
        connection.execute("SET search_path = public")
        yield connection


def test_a_part_has_its_columns_elsewhere(leaf: Directory) -> None:
    run_each(
        leaf["jfk"],
        "INSERT INTO leaf (id, v, note) VALUES (5, 9, 'five'), (9, 5, 'nine')",
        "UPDATE leaf SET note = 'FIVE' WHERE id = 5",
        "INSERT INTO leaf (id, v, note) VALUES (1, 2, 'one')",
        "UPDATE leaf SET id = 3 WHERE id = 1",
        "UPDATE orders SET v = 7 WHERE id = 9",
        "DELETE FROM leaf WHERE id = 5",
    )
    assert deferred.push(leaf["jfk"]).errors == 0
    assert rows(leaf["hq"]) == [(3, 2, "one"), (9, 7, "nine")]


def test_a_log_knows_the_keys_of_a_part(sites: Directory) -> None:
    hq = sites["hq"]
    table, *parts = LEAVES["a partition"]
    run_each(hq, f"CREATE TABLE orders ({table})", *parts)
    masters.create_snapshot_log(hq, "orders")
    run_each(
        hq,
        "INSERT INTO leaf (id, v) VALUES (5, 9)",
        "UPDATE leaf SET v = 1",
        "DELETE FROM leaf",
    )
    logged = 'SELECT kind::text, k1 FROM snaptide."mlog$_orders" ORDER BY xid'
    assert run(hq, logged) == [("I", 5), ("U", 5), ("D", 5)]


OWN = "mine int, id int PRIMARY KEY, v int, yours int, note text"


@pytest.mark.parametrize("own", ["mine", "yours"])
def test_a_column_that_is_not_captured_goes(
    sites: Directory, user: User, own: str
) -> None:
    """In front of one that is: a session that has written before goes on."""
    link(sites, columns=PARTS, at_site=OWN, carried=["id", "v", "note"])
    for number in range(1, 8):
        user.execute(f"INSERT INTO orders (id, v) VALUES ({number}, 0)")
    run(sites["jfk"], f"ALTER TABLE orders DROP {own}")
    user.execute("UPDATE orders SET note = 'x' WHERE id = 1")
    user.execute("DELETE FROM orders WHERE id > 1")
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"]) == [(1, 0, "x")]


SWAP = (
    "ALTER TABLE orders RENAME a TO c",
    "ALTER TABLE orders RENAME b TO a",
    "ALTER TABLE orders RENAME c TO b",
)
TWO = "id int PRIMARY KEY, a text, b text"


@pytest.fixture
def swapped(sites: Directory, user: User) -> Directory:
    """Two columns of a table at jfk have each other's names; a session wrote before."""
    link(sites, columns=TWO)
    for number in range(1, 8):
        user.execute(f"INSERT INTO orders VALUES ({number}, 'a', 'b')")
    run(sites["jfk"], *SWAP)
    return sites


def test_columns_that_swap_names_stay_what_they_are(
    swapped: Directory, user: User
) -> None:
    user.execute("UPDATE orders SET b = 'A' WHERE id = 1")
    user.execute("INSERT INTO orders (id, a, b) VALUES (8, 'b', 'a')")
    user.execute("DELETE FROM orders WHERE id = 2")
    assert deferred.push(swapped["jfk"]).errors == 0
    there = [(1, "A", "b"), *((n, "a", "b") for n in range(3, 9))]
    assert rows(swapped["hq"]) == there


def test_a_queue_that_is_made_anew_knows_its_columns(
    swapped: Directory, user: User
) -> None:
    with swapped["jfk"].transaction() as connection:
        define.replace_functions(connection)
    user.execute("UPDATE orders SET b = 'A' WHERE id = 1")
    [(_, _, _, new)] = [call for call in calls(swapped["jfk"]) if call[1] == "U"]
    assert new == {"id": "1", "a": "A", "b": "b"}


def test_one_moment_sees_the_columns_of_now(sites: Directory, user: User) -> None:
    """Its catalog is of before the columns were renamed, the rows are of now."""
    link(sites, columns=TWO)
    user.execute("INSERT INTO orders VALUES (1, 'a', 'b')")
    user.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    user.execute("SELECT 1 FROM pg_class")
    run(sites["jfk"], *SWAP)
    user.execute("INSERT INTO orders (id, a, b) VALUES (2, 'b', 'a')")
    user.execute("COMMIT")
    assert [new for *_, new in calls(sites["jfk"])][1] == {
        "id": "2",
        "a": "a",
        "b": "b",
    }


def test_what_a_session_takes_back_is_forgotten(sites: Directory, user: User) -> None:
    link(sites, columns=TWO)
    with user.transaction(force_rollback=True):
        for statement in SWAP:
            user.execute(statement)
        user.execute("INSERT INTO orders (id, a, b) VALUES (1, 'b', 'a')")
    user.execute("INSERT INTO orders (id, a, b) VALUES (1, 'a', 'b')")
    assert [new for *_, new in calls(sites["jfk"])] == [{"id": "1", "a": "a", "b": "b"}]


def test_a_partition_that_left_is_queued_no_more(sites: Directory) -> None:
    jfk = sites["jfk"]
    table, *parts = LEAVES["a partition"]
    link(sites, columns=PARTS, at_site=table, parts=parts)
    run_each(jfk, "INSERT INTO leaf (id) VALUES (1)")
    run(jfk, "ALTER TABLE orders DETACH PARTITION leaf")
    run(jfk, "DELETE FROM leaf")
    assert [operation for _, operation, _, _ in calls(jfk)] == ["I"]


def test_a_captured_column_is_gone(sites: Directory) -> None:
    link(sites, columns=TWO)
    run(sites["jfk"], "ALTER TABLE orders DROP a")
    with pytest.raises(psycopg.errors.UndefinedColumn, match="is gone from this table"):
        run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    assert queued(sites["jfk"]) == 0


def test_a_copy_of_the_database_numbers_its_tables_anew(sites: Directory) -> None:
    """And its columns: what was dropped before the copy has no number there."""
    jfk: Site = sites["jfk"]
    link(sites, columns=PARTS, at_site=OWN, carried=["id", "v", "note"])
    [(oid,)] = run(jfk, "SELECT 'orders'::regclass::oid")
    [(function,)] = run(
        jfk, "SELECT pg_get_functiondef('snaptide.\"def$_orders\"()'::regprocedure)"
    )
    [(names,)] = run(
        jfk,
        "SELECT pg_get_functiondef('snaptide.\"def$_orders\"(regclass)'::regprocedure)",
    )
    assert f"'{oid}'" in function
    run(jfk, function.replace(f"'{oid}'", "'1'"), names.replace("{2,3,5}", "{1,2,3}"))
    run(jfk, "INSERT INTO orders (id, v, note) VALUES (1, 2, 'x')")
    assert [new for *_, new in calls(jfk)] == [{"id": "1", "v": "2", "note": "x"}]

    run(jfk, "UPDATE snaptide.queue SET column_numbers = '{1,2,3}'")
    with jfk.transaction() as connection:
        define.replace_functions(connection)
    run(jfk, "ALTER TABLE orders RENAME v TO w")
    run(jfk, "UPDATE orders SET w = 3")
    assert calls(jfk)[-1][-1] == {"id": "1", "v": "3", "note": "x"}
