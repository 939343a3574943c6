"""Partition columns of a snapshot log: a site reads only log rows of its own values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import masters
import snapshots
from masters.errors import CannotPartition, UnknownColumn
from sites import Directory, Site, names
from snapshots.differences import comparison, large
from tests.divided import AIRPORTS, FLIGHTS, divide, looked_at
from tests.fix_commands import Snaptide
from tests.fix_worlds import prepared_once
from tests.linked_table import rows, run
from tests.rows_read import rows_read
from tests.stories import assert_equal_to_master, refresh

SWAP = (
    "UPDATE flights SET origin = CASE id WHEN 3 THEN 'LAX' ELSE 'JFK' END"
    " WHERE id IN (3, 4)"
)


@prepared_once("hq", *AIRPORTS, needs="spark")
def partitioned(sites: Directory) -> None:
    divide(sites)


def test_a_site_reads_changes_of_its_own_alone(partitioned: Directory) -> None:
    run(partitioned["hq"], "UPDATE flights SET seats = 99 WHERE origin = 'JFK'")
    assert looked_at(partitioned) == {"jfk": 10, "lax": 0, "sfo": 0}
    run(partitioned["hq"], "DELETE FROM flights WHERE id = 1")  # of LAX
    run(partitioned["hq"], "INSERT INTO flights VALUES (99, 'SFO', 1)")
    assert looked_at(partitioned) == {"jfk": 0, "lax": 1, "sfo": 1}


def test_a_row_that_moves_is_read_where_it_was_and_where_it_is(
    partitioned: Directory,
) -> None:
    hq = partitioned["hq"]
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3")  # of JFK
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 0}
    run(hq, "UPDATE flights SET origin = 'SFO' WHERE id = 3")
    run(hq, "UPDATE flights SET origin = 'JFK' WHERE id = 3")
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 1}


@pytest.mark.parametrize(
    ("statements", "read"),
    [
        # To NULL, and back.
        (["UPDATE flights SET origin = NULL WHERE id = 3"], (1, 0, 0)),
        (
            [
                "UPDATE flights SET origin = NULL WHERE id = 3",
                "UPDATE flights SET origin = 'LAX' WHERE id = 3",
            ],
            (1, 1, 0),
        ),
        # The key and the column at once; the key alone; two rows that swap values.
        (["UPDATE flights SET id = 77, origin = 'LAX' WHERE id = 3"], (1, 1, 0)),
        (["UPDATE flights SET id = 77 WHERE id = 3"], (2, 0, 0)),
        (
            [SWAP],
            (2, 2, 0),
        ),
        # Gone and back under the same key, within one transaction.
        (
            [
                "DELETE FROM flights WHERE id = 3",
                "INSERT INTO flights VALUES (3, 'SFO', 5)",
            ],
            (1, 0, 1),
        ),
        (["INSERT INTO flights VALUES (99, NULL, 1)"], (0, 0, 0)),
        (["DELETE FROM flights WHERE id = 3"], (1, 0, 0)),
    ],
)
def test_changes_of_every_kind(
    partitioned: Directory, statements: Sequence[str], read: Sequence[int]
) -> None:
    run(partitioned["hq"], *statements)
    assert looked_at(partitioned) == dict(zip(AIRPORTS, read, strict=True))


def test_a_native_subscription_writes_row_by_row(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(
        hq,
        "SET session_replication_role = replica",
        "ALTER TABLE flights DISABLE TRIGGER snaptide_mlog_update",
        "UPDATE flights SET origin = 'LAX' WHERE id = 3",
        "ALTER TABLE flights ENABLE ALWAYS TRIGGER snaptide_mlog_update",
        "RESET session_replication_role",
    )
    logged = run(hq, 'SELECT kind, k1, "p$origin" <> 1 FROM snaptide."mlog$_flights"')
    assert logged == [("U", 3, True)] * 2


def test_a_truncate_is_a_complete_refresh_for_all(partitioned: Directory) -> None:
    run(partitioned["hq"], "TRUNCATE flights")
    for name in AIRPORTS:
        site = partitioned[name]
        report = refresh(site, "flights", allow_mass_delete=True)["flights"]
        assert (report.method, report.deleted) == ("complete", FLIGHTS // 3)


def test_a_purged_log_has_what_a_site_still_needs(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3")
    masters.purge_snapshot_logs(hq)
    refresh(partitioned["jfk"], "flights")
    masters.purge_snapshot_logs(hq)
    assert looked_at(partitioned) == {"jfk": 0, "lax": 1, "sfo": 0}
    masters.repair_snapshot_logs(hq)
    run(hq, "UPDATE flights SET origin = 'JFK' WHERE id = 3")
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 0}


def test_the_condition_may_be_another_one_later(partitioned: Directory) -> None:
    hq, jfk = partitioned["hq"], partitioned["jfk"]
    run(hq, "UPDATE flights SET seats = 7 WHERE origin = 'LAX'")
    snapshots.alter_condition(
        jfk, "flights", where="origin IN ('JFK', 'LAX') AND seats > 5"
    )
    refresh(jfk, "flights")
    assert len(rows(jfk, "flights")) == 20
    run(hq, "UPDATE flights SET seats = 1 WHERE id IN (1, 2, 3)")
    assert looked_at(partitioned) == {"jfk": 2, "lax": 10, "sfo": 1}


def test_changes_of_the_site_itself(partitioned: Directory) -> None:
    hq, jfk = partitioned["hq"], partitioned["jfk"]
    snapshots.drop(jfk, "flights")
    snapshots.create(
        jfk, "flights", master="hq", where="origin = 'JFK'", updatable=True
    )
    refresh(jfk, "flights")
    run(jfk, "UPDATE flights SET seats = 1 WHERE id = 3")
    run(jfk, "INSERT INTO flights VALUES (50, 'JFK', 5)")
    run(hq, "UPDATE flights SET origin = 'SFO' WHERE id = 6")
    # A rule of the master's own: what is inserted there is of LAX.
    run(
        hq,
        "CREATE FUNCTION lax() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.origin := 'LAX'; RETURN NEW; END $$",
        "CREATE TRIGGER lax BEFORE INSERT ON flights FOR EACH ROW"
        " EXECUTE FUNCTION lax()",
        "ALTER TABLE flights ENABLE ALWAYS TRIGGER lax",
    )
    for _ in range(2):
        snapshots.refresh(jfk, "flights")
    written = run(hq, "SELECT * FROM flights WHERE id IN (3, 50) ORDER BY id")
    assert written == [(3, "JFK", 1), (50, "LAX", 5)]
    looked_at(partitioned)


def test_partitions_and_their_statements(sites: Directory, spark: object) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE flights (id int, origin text, PRIMARY KEY (id, origin))"
        " PARTITION BY LIST (origin)",
        "CREATE TABLE flights_jfk PARTITION OF flights FOR VALUES IN ('JFK')",
        "CREATE TABLE flights_lax (gone int, origin text NOT NULL, id int NOT NULL)",
        "ALTER TABLE flights_lax DROP COLUMN gone",
        "ALTER TABLE flights ATTACH PARTITION flights_lax FOR VALUES IN ('LAX')",
        "INSERT INTO flights VALUES (1, 'JFK'), (2, 'LAX'), (3, 'JFK')",
    )
    masters.create_snapshot_log(hq, "flights", partition_columns=["origin"])
    snapshots.create(jfk, "flights", master="hq", where="origin = 'JFK'")
    refresh(jfk, "flights")
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 1")
    run(hq, "INSERT INTO flights_lax (id, origin) VALUES (9, 'LAX')")
    run(hq, "DELETE FROM flights_jfk WHERE id = 3")
    report = refresh(jfk, "flights", allow_mass_delete=True)["flights"]
    assert (report.method, report.window_keys) == ("fast", 2)
    assert_equal_to_master(jfk)


def test_the_index_is_read_and_nothing_else(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(
        hq,
        "INSERT INTO flights SELECT n, (ARRAY['LAX', 'SFO'])[n % 2 + 1], 1"
        " FROM generate_series(1000, 60000) n",
        "UPDATE flights SET seats = 2 WHERE origin = 'JFK'",
        'ANALYZE snaptide."mlog$_flights"',
    )
    before = rows_read(hq, "mlog$_flights")
    assert refresh(partitioned["jfk"], "flights")["flights"].window_keys == 10
    assert rows_read(hq, "mlog$_flights") - before < 100


def test_executors_read_the_same_keys(
    partitioned: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "SMALL_WINDOW", 2)
    monkeypatch.setattr(large, "PART", 4)
    run(partitioned["hq"], "UPDATE flights SET origin = 'JFK' WHERE id % 2 = 0")
    assert looked_at(partitioned) == {"jfk": 15, "lax": 5, "sfo": 5}


#: Names and values that mean something to whoever puts a statement together.
ODD = "p%(x)s {y} \"Z'"
ODD_TABLE = '"a%s {b}"'


def test_names_that_mean_something_elsewhere(sites: Directory, spark: object) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    column, value = names.quoted(ODD), "'%s {0} \\ '''"
    run(
        hq,
        f"CREATE TABLE {ODD_TABLE} (id int PRIMARY KEY, {column} text, r int)",
        f"INSERT INTO {ODD_TABLE} VALUES (1, {value}, 1), (2, 'b', 1)",
    )
    masters.create_snapshot_log(hq, ODD_TABLE, partition_columns=[ODD, "r"])
    snapshots.create(
        jfk, "seen", master="hq", table=ODD_TABLE, where=f"{column} = {value}"
    )
    refresh(jfk, "seen")
    run(hq, f"UPDATE {ODD_TABLE} SET r = 2")
    assert refresh(jfk, "seen")["seen"].window_keys == 1
    assert_equal_to_master(jfk)


def test_commands(sites: Directory, snaptide: Snaptide) -> None:
    hq = sites["hq"]
    run(hq, "CREATE TABLE flights (id int PRIMARY KEY, origin text, seats int)")
    masters.create_snapshot_log(hq, "flights")
    altered = ("log", "alter", "hq", "flights", "--partition-columns")
    made = snaptide.report(*altered, "seats,origin")
    assert made["partition_columns"] == ["seats", "origin"]
    made = snaptide.report(*altered, "")
    assert made["partition_columns"] == []
    snaptide.report("log", "drop", "hq", "flights")
    created = ("log", "create", "hq", "flights", "--partition-columns", '"origin"')
    assert snaptide.report(*created)["partition_columns"] == ["origin"]
    (log,) = masters.list_snapshot_logs(hq)
    assert log.partition_columns == ("origin",)


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        (["nothing"], UnknownColumn, "has no column nothing"),
        (["a", "a"], CannotPartition, "up to 3"),
        (["a", "b", "c", "d"], CannotPartition, "up to 3"),
        (["place"], CannotPartition, "no hash"),
        (["cash"], CannotPartition, "no hash"),
        (["x" * 60], CannotPartition, "more than 58 bytes"),
    ],
)
def test_columns_that_cannot_be(
    hq: Site, columns: list[str], error: type[Exception], says: str
) -> None:
    run(
        hq,
        "CREATE TABLE t (id int PRIMARY KEY, a int, b int, c int, d int,"
        f" place point, cash money, {'x' * 60} int)",
    )
    with pytest.raises(error, match=says):
        masters.create_snapshot_log(hq, "t", partition_columns=columns)
    assert masters.list_snapshot_logs(hq) == []
