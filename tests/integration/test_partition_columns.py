"""Partition columns of a snapshot log: a site reads only log rows of its own values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import masters
import snapshots
from masters.errors import CannotLogTable, CannotPartition, DdlRefused, UnknownColumn
from masters.log.snapshot_log import replace_functions
from sites import Directory, Site, names
from snapshots.differences import comparison, large
from snaptide import doctor
from tests.fix_commands import Snaptide
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.linked_table import rows, run, scalar
from tests.stories import assert_equal_to_master, refresh

LOGGED = 'SELECT "p$origin" FROM snaptide."mlog$_flights"'
AIRPORTS = ("jfk", "lax", "sfo")
FLIGHTS = 30
SWAP = (
    "UPDATE flights SET origin = CASE id WHEN 3 THEN 'LAX' ELSE 'JFK' END"
    " WHERE id IN (3, 4)"
)


@prepared_once("hq", *AIRPORTS, needs="spark")
def partitioned(sites: Directory) -> None:
    hq = sites["hq"]
    run(
        hq,
        "CREATE TABLE flights (id int PRIMARY KEY, origin varchar(3), seats int)",
        "INSERT INTO flights SELECT n, (ARRAY['JFK', 'LAX', 'SFO'])[n % 3 + 1], 100"
        f" FROM generate_series(1, {FLIGHTS}) n",
    )
    masters.create_snapshot_log(hq, "flights", partition_columns=["origin"])
    for name in AIRPORTS:
        condition = f"origin = '{name.upper()}'"
        snapshots.create(sites[name], "flights", master="hq", where=condition)
        refresh(sites[name], "flights")


def looked_at(sites: Directory) -> dict[str, int | None]:
    """Refresh all sites, see that they are right, and say how many keys each read."""
    airports = [sites[name] for name in sites if name in AIRPORTS]
    found = {
        site.name: refresh(site, "flights")["flights"].window_keys for site in airports
    }
    assert_equal_to_master(*airports)
    return found


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


def test_changes_of_before_the_declaration_are_read_by_all(
    partitioned: Directory,
) -> None:
    hq = partitioned["hq"]
    masters.alter_snapshot_log(hq, "flights", partition_columns=[])
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3")
    masters.alter_snapshot_log(hq, "flights", partition_columns=["origin"])
    run(hq, "UPDATE flights SET origin = 'SFO' WHERE id = 6")
    assert looked_at(partitioned) == {"jfk": 2, "lax": 1, "sfo": 2}
    run(hq, "UPDATE flights SET seats = 9 WHERE id = 3")
    assert looked_at(partitioned) == {"jfk": 0, "lax": 1, "sfo": 0}


def test_other_columns_take_the_place_of_those_before(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3")
    made = masters.alter_snapshot_log(hq, "flights", partition_columns=["seats"])
    assert made.partition_columns == ("seats",)
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 6")
    assert looked_at(partitioned) == {"jfk": 2, "lax": 2, "sfo": 2}
    both = ["seats", "origin"]
    made = masters.alter_snapshot_log(hq, "flights", partition_columns=both)
    assert made.partition_columns == ("seats", "origin")
    run(hq, "UPDATE flights SET origin = 'JFK', seats = 1 WHERE id = 3")
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 0}


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE flights ALTER COLUMN origin TYPE text",
        'ALTER TABLE flights ALTER COLUMN origin TYPE varchar(3) COLLATE "C"',
        "ALTER TABLE flights ADD COLUMN other varchar(3)",
    ],
)
def test_a_column_that_is_altered_loses_no_change(
    partitioned: Directory, ddl: str
) -> None:
    hq = partitioned["hq"]
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3", ddl)
    run(hq, "UPDATE flights SET origin = 'SFO' WHERE id = 6")
    looked_at(partitioned)
    run(hq, "UPDATE flights SET origin = 'SFO' WHERE id = 9")
    looked_at(partitioned)
    masters.alter_snapshot_log(hq, "flights", partition_columns=["origin"])
    looked_at(partitioned)
    run(hq, "UPDATE flights SET seats = 1 WHERE origin = 'LAX'")
    assert looked_at(partitioned)["jfk"] == 0


def test_a_column_whose_name_another_one_had_for_a_while(
    partitioned: Directory,
) -> None:
    hq = partitioned["hq"]
    run(hq, "ALTER TABLE flights ADD COLUMN spare varchar(3) DEFAULT 'SFO'")
    looked_at(partitioned)
    run(hq, *_renamed("origin", "mine"), *_renamed("spare", "origin"))
    run(hq, "UPDATE flights SET mine = 'LAX' WHERE id = 3")
    run(hq, *_renamed("origin", "spare"), *_renamed("mine", "origin"))
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 1}


def _renamed(before: str, after: str) -> list[str]:
    return [f"ALTER TABLE flights RENAME COLUMN {before} TO {after}"]


def test_users_go_on_writing_without_the_column(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(hq, "ALTER TABLE flights DROP COLUMN origin")
    run(hq, "UPDATE flights SET seats = 1 WHERE id = 3")
    assert scalar(hq, LOGGED) == 1


def test_a_table_without_the_key_of_its_log(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(hq, "ALTER TABLE flights DROP COLUMN id")
    with pytest.raises(CannotLogTable, match="no longer has the key"):
        masters.alter_snapshot_log(hq, "flights", partition_columns=["seats"])
    run(hq, "UPDATE flights SET seats = 1")
    assert run(hq, 'SELECT kind FROM snaptide."mlog$_flights"') == [("T",)]


def test_ddl_for_sites_asks_to_take_it_from_the_log_first(
    partitioned: Directory,
) -> None:
    with pytest.raises(DdlRefused, match="origin is a partition column of its log"):
        masters.execute_ddl(
            partitioned["hq"], "ALTER TABLE flights RENAME COLUMN origin TO source"
        )


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
    before = _log_rows_read(hq)
    assert refresh(partitioned["jfk"], "flights")["flights"].window_keys == 10
    assert _log_rows_read(hq) - before < 100


def _log_rows_read(hq: Site) -> int:
    """How many rows, or entries of indexes, sessions have read of the log."""
    hq.close()
    eventually(lambda: scalar(hq, _SESSIONS) == 0, what="the sessions: to be gone")
    return int(scalar(hq, _READ))


_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
  AND pid <> pg_backend_pid()
"""
_READ = """
SELECT sum(t.seq_tup_read) + (
    SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i
    WHERE i.relname LIKE 'mlog$_flights%')
FROM pg_stat_user_tables t WHERE t.relname LIKE 'mlog$_flights%'
"""


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


def test_functions_that_are_made_anew(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    with hq.transaction() as connection:
        replace_functions(connection)
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3")
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 0}
    run(hq, "ALTER TABLE flights ALTER COLUMN origin TYPE text")
    with hq.transaction() as connection:
        replace_functions(connection)
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 6")
    assert scalar(hq, f"{LOGGED} WHERE k1 = 6") == 1
    looked_at(partitioned)


def test_the_doctor_finds_what_is_not_recorded(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    assert about_flights(hq) == []
    run(hq, "ALTER TABLE flights ALTER COLUMN origin TYPE text")
    assert about_flights(hq) == [
        'snaptide log alter hq flights --partition-columns "origin"'
    ]
    masters.alter_snapshot_log(hq, "flights", partition_columns=["origin"])
    assert about_flights(hq) == []


def about_flights(hq: Site) -> list[str]:
    """What is to be done about the table's log, as the doctor says."""
    return [one.todo for one in doctor.examine(hq) if "log alter" in one.todo]


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
