"""Values that are equal for the database are the same, however they are spelt."""

import pytest

import deferred
import masters
from deferred.batches import marker
from deferred.batches.cut import next_batch
from deferred.batches.shipment import prepare_shipment
from deferred.pushing.dependence import last_shared
from deferred.queues.queue import list_queues
from masters.errors import CannotLogTable
from sites import Directory, Site
from snaptide import doctor
from tests.integration.test_capture_key_types import CODE
from tests.linked_table import as_refresh, link, parked, rows, run, run_each

#: A type, and two spellings of a value.
SPELT = {
    "numeric": ("numeric", "1.0", "1.00"),
    "padded": ("char(3)", "a", "a  "),
    "float": ("double precision", "-0", "0"),
    "interval": ("interval", "1 mon", "30 days"),
    "json": ("jsonb", "[1.0]", "[1.00]"),
    "a type of users": ("code", "(abc)", "(ABC)"),
}
CASES = pytest.mark.parametrize(("type_", "one", "other"), SPELT.values(), ids=SPELT)


def linked(sites: Directory, type_: str) -> None:
    """Parents with a key and a unique value of a type, and children of theirs."""
    if type_ == "code":
        for site in sites.values():
            run(site, CODE)
    link(sites, "parent", f"id {type_} PRIMARY KEY, u {type_} UNIQUE, v int")
    link(sites, "child", f"id int PRIMARY KEY, parent {type_} REFERENCES parent (id)")


@CASES
def test_a_reference_to_a_parked_row_waits(
    sites: Directory, type_: str, one: str, other: str
) -> None:
    """Another site has made a parent of the same key."""
    hq, jfk = sites["hq"], sites["jfk"]
    linked(sites, type_)
    as_refresh(hq, f"INSERT INTO parent VALUES ('{one}', NULL, 1)")
    run(jfk, f"INSERT INTO parent VALUES ('{one}', NULL, 2)")
    run(jfk, f"INSERT INTO child VALUES (10, '{other}')")
    assert deferred.push(jfk).errors == 2
    (first, *_), (_, reason, _, waits_for) = parked(hq)
    assert (reason, waits_for) == ("dependant", [first])
    assert rows(hq, "child") == []


@CASES
def test_streams_know_what_depends(
    sites: Directory, type_: str, one: str, other: str
) -> None:
    jfk = sites["jfk"]
    linked(sites, type_)
    run_each(
        jfk,
        f"INSERT INTO parent VALUES ('{one}', '{one}', 1)",
        f"INSERT INTO child VALUES (10, '{other}')",
        f"UPDATE parent SET v = 2, u = '{other}' WHERE id = '{one}'",
        "INSERT INTO child VALUES (11, NULL)",
    )
    with jfk.session() as origin, sites["hq"].session() as target:
        cut = next_batch(origin, "hq", marker.Marker())
        assert cut is not None
        batch, _ = cut
        queues = list_queues(origin, "hq")
        found = last_shared(prepare_shipment(origin, target, batch, queues), -1, 100)
        rows_of = "SELECT order_no FROM snaptide.delivery ORDER BY order_no"
        numbers = list(origin.exec_driver_sql(rows_of).scalars())
    places = {numbers.index(n): numbers.index(m) for n, m in found.items()}
    assert places == {1: 0, 2: 1}
    assert deferred.push(jfk, parallelism=2).errors == 0


@CASES
def test_one_key_is_one_row_in_a_batch(
    sites: Directory, type_: str, one: str, other: str
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    linked(sites, type_)
    run_each(
        jfk,
        f"INSERT INTO parent VALUES ('{one}', NULL, 1)",
        f"UPDATE parent SET id = '{other}', v = 2",
        "DELETE FROM parent",
        f"INSERT INTO parent VALUES ('{other}', '{one}', 3)",
        f"UPDATE parent SET id = '{one}', v = 4",
    )
    assert deferred.push(jfk).errors == 0
    assert rows(hq, "parent") == rows(jfk, "parent")


def blind(hq: Site) -> None:
    """A collation that is not deterministic; not every build of PostgreSQL has ICU."""
    run(
        hq,
        "CREATE COLLATION blind (provider = libc, locale = 'C')",
        "UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'blind'",
    )


@pytest.mark.parametrize(
    "table",
    [
        "t (k text COLLATE blind PRIMARY KEY)",
        "t (k varchar(9) COLLATE blind UNIQUE, id int PRIMARY KEY)",
        "t (id int PRIMARY KEY, k text COLLATE blind REFERENCES of_users)",
        "t (id int PRIMARY KEY, k of_ours UNIQUE)",
    ],
)
def test_a_key_whose_equal_texts_differ_is_refused(
    sites: Directory, table: str
) -> None:
    hq = sites["hq"]
    blind(hq)
    run(
        hq,
        "CREATE DOMAIN of_ours AS text COLLATE blind",
        "CREATE TABLE of_users (k text COLLATE blind PRIMARY KEY)",
        f"CREATE TABLE {table}",
    )
    with pytest.raises(CannotLogTable, match=r"Column k of t .* not deterministic"):
        masters.create_snapshot_log(hq, "t")


def test_other_columns_may_compare_as_they_like(sites: Directory) -> None:
    blind(sites["hq"])
    run(sites["hq"], "CREATE TABLE t (id int PRIMARY KEY, v text COLLATE blind)")
    masters.create_snapshot_log(sites["hq"], "t")


def test_a_column_that_gets_such_a_collation_later_is_compared(
    sites: Directory,
) -> None:
    """Its log is there; doctor names the column."""
    hq, jfk = sites["hq"], sites["jfk"]
    linked(sites, "text")
    for site in sites.values():
        blind(site)
        run(site, "ALTER TABLE parent ALTER u TYPE text COLLATE blind")
    as_refresh(hq, "INSERT INTO parent VALUES ('a', NULL, 1)")
    run(jfk, "INSERT INTO parent VALUES ('a', 'u', 2)")
    run(jfk, "INSERT INTO parent VALUES ('b', 'w', 2)")
    run(jfk, "UPDATE parent SET u = NULL WHERE id = 'a'")
    run(jfk, "UPDATE parent SET u = 'u' WHERE id = 'b'")
    assert deferred.push(jfk, parallelism=2).errors == 2
    assert [error[1] for error in parked(hq)] == ["conflict", "dependant"]
    found = [one for one in doctor.examine(hq) if "not deterministic" in one.what]
    assert [one.subject for one in found] == ["parent"]
