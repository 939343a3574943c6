"""A master table that loses its key under sessions that go on writing."""

from collections.abc import Iterator

import psycopg
import pytest

import masters
from masters.errors import CannotLogTable
from sites import Directory, Site
from sites.errors import RecordedAlready
from tests.linked_table import application, run

User = psycopg.Connection[tuple[object, ...]]

#: What takes the key away that the log was made for.
ALTERATIONS = {
    "renamed": "ALTER TABLE t DROP CONSTRAINT t_pkey, ALTER id DROP NOT NULL; "
    "ALTER TABLE t RENAME id TO number",
    "of another type": "ALTER TABLE t DROP CONSTRAINT t_pkey,"
    " ALTER id DROP NOT NULL, ALTER id TYPE text",
    "dropped": "ALTER TABLE t DROP id",
}
LOGGED = 'SELECT kind::text, k1 FROM snaptide."mlog$_t" ORDER BY xid, k1'


@pytest.fixture(params=["t", "part"])
def table(request: pytest.FixtureRequest) -> str:
    """What statements name: a table, or a partition of it."""
    return str(request.param)


@pytest.fixture
def hq(sites: Directory) -> Site:
    """A logged table of one partition."""
    site = sites["hq"]
    run(
        site,
        "CREATE TABLE t (id int, v int, w int, PRIMARY KEY (id, v))"
        " PARTITION BY LIST (v)",
        "CREATE TABLE part PARTITION OF t DEFAULT",
    )
    masters.create_snapshot_log(site, "t")
    return site


@pytest.fixture
def user(hq: Site) -> Iterator[User]:
    """A session that is open all the time; each statement is a transaction."""
    with application(hq) as connection:
        connection.autocommit = True
        yield connection


@pytest.mark.parametrize("how", ALTERATIONS)
def test_a_session_that_wrote_before_marks_the_log(
    hq: Site, user: User, table: str, how: str
) -> None:
    """It has planned what it records, and learns of another's statement."""
    for number in range(1, 8):
        _insert(user, table, number)
    run(hq, ALTERATIONS[how])
    user.execute(f"INSERT INTO public.{table} (v) VALUES (1)")
    user.execute(f"UPDATE public.{table} SET w = 1 WHERE v = 1")
    assert _logged(hq) == [("I", n) for n in range(1, 8)] + [("T", None)] * 2


def test_a_session_that_alters_the_table_itself(
    hq: Site, user: User, table: str
) -> None:
    for number in range(1, 8):
        _insert(user, table, number)
    with user.transaction(force_rollback=True):
        user.execute("ALTER TABLE public.t RENAME id TO number")
        _insert(user, table, 8, "number")
        assert user.execute(LOGGED).fetchall()[-1] == ("T", None)
    _insert(user, table, 9)
    assert _logged(hq) == [("I", n) for n in (*range(1, 8), 9)]


def test_a_copy_of_the_database_numbers_its_tables_anew(
    hq: Site, user: User, table: str
) -> None:
    [(number,)] = run(hq, "SELECT 't'::regclass::oid")
    [(function,)] = run(
        hq, "SELECT pg_get_functiondef('snaptide.\"mlog$_t\"()'::regprocedure)"
    )
    assert f"'{number}'" in function
    run(hq, function.replace(f"'{number}'", "'1'"))
    _insert(user, table, 1)
    user.execute("ALTER TABLE public.t RENAME id TO number")
    _insert(user, table, 2, "number")
    assert _logged(hq) == [("I", 1), ("T", None)]


def test_a_partition_that_left_is_a_table_of_its_own(hq: Site, user: User) -> None:
    """It has lost the key; the table that it was part of has it still."""
    for number in range(1, 8):
        _insert(user, "part", number)
    run(hq, "ALTER TABLE t DETACH PARTITION part")
    run(
        hq,
        ALTERATIONS["renamed"].replace("t_pkey", "part_pkey").replace(" t ", " part "),
    )
    user.execute("INSERT INTO public.part (v) VALUES (1)")
    assert _logged(hq)[-1] == ("T", None)


def test_a_part_of_a_logged_table_gets_no_log_of_its_own(hq: Site) -> None:
    with pytest.raises(CannotLogTable, match="a partition or child of t"):
        masters.create_snapshot_log(hq, "part")
    run(hq, "ALTER TABLE t DETACH PARTITION part")
    with pytest.raises(RecordedAlready, match="already recorded"):
        masters.create_snapshot_log(hq, "part")
    masters.drop_snapshot_log(hq, "t")
    masters.create_snapshot_log(hq, "part")
    run(hq, "ALTER TABLE t ATTACH PARTITION part DEFAULT")
    with pytest.raises(RecordedAlready):
        masters.create_snapshot_log(hq, "t")


def _insert(user: User, table: str, number: int, key: str = "id") -> None:
    user.execute(f"INSERT INTO public.{table} ({key}, v) VALUES ({number}, 1)")


def _logged(hq: Site) -> list[tuple[object, ...]]:
    return run(hq, LOGGED)


@pytest.mark.parametrize("how", ALTERATIONS)
def test_what_an_old_moment_saw_is_not_kept(
    hq: Site, user: User, table: str, how: str
) -> None:
    """A transaction of before the alteration sees the key in the catalog, still."""
    user.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    user.execute("SELECT 1 FROM pg_class")
    run(hq, ALTERATIONS[how])
    with pytest.raises(psycopg.Error):
        user.execute(f"INSERT INTO public.{table} (v) VALUES (1)")
    user.execute("ROLLBACK")
    user.execute(f"INSERT INTO public.{table} (v) VALUES (1)")
    assert _logged(hq) == [("T", None)]
