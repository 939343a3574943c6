"""New partitions and children get the triggers of their log as they are made."""

import pytest

import masters
import snapshots
from masters.log import arming
from sites import Directory, QualifiedName, Site
from sites.names import quoted
from snaptide import doctor, migrate
from tests.fix_sites import log
from tests.integration.test_parts_unrecorded import INHERITED, LATER, PARTITIONED
from tests.linked_table import application, run, scalar
from tests.stories import assert_equal_to_master, refresh

SUBPARTITIONED = (
    "CREATE TABLE late (v text, id int NOT NULL) PARTITION BY RANGE (id)",
    "CREATE TABLE later PARTITION OF late FOR VALUES FROM (10) TO (15)",
    "CREATE TABLE latest PARTITION OF late DEFAULT",
    "INSERT INTO late (id) VALUES (10)",
    "ALTER TABLE t ATTACH PARTITION late FOR VALUES FROM (10) TO (20)",
)
IN_A_SCHEMA = (
    "CREATE SCHEMA s"
    " CREATE TABLE late PARTITION OF public.t FOR VALUES FROM (10) TO (20)"
)


def logged(site: Site, table: str = "t") -> list[tuple[object, ...]]:
    """What the log of a table has noted: kind and key."""
    name = quoted(masters.show_snapshot_log(site, table).log_table)
    return run(site, f"SELECT kind::text, k1 FROM snaptide.{name} ORDER BY 2, 1")


def lacking(site: Site) -> list[str]:
    """Tables that have some trigger missing or off, as doctor finds them."""
    return [one.subject for one in doctor.examine(site) if "mlog" in one.what]


@pytest.mark.parametrize(
    ("made", "later", "part"),
    [
        *((*one, "late") for one in LATER.values()),
        (PARTITIONED, SUBPARTITIONED, "later"),
        (PARTITIONED, (IN_A_SCHEMA,), "s.late"),
    ],
    ids=[*LATER, "partitioned itself", "in a new schema"],
)
def test_statements_on_a_new_part_are_recorded(
    sites: Directory, made: tuple[str, ...], later: tuple[str, ...], part: str
) -> None:
    """Those of the same transaction, too."""
    hq = sites["hq"]
    run(hq, *made)
    log(hq, "t")
    assert masters.show_snapshot_log(hq, "t").arms_parts
    run(hq, *later, f"INSERT INTO {part} (id, v) VALUES (11, 'a'), (12, 'a')")
    assert logged(hq) == [("I", 11), ("I", 12)]
    run(hq, f"UPDATE {part} SET v = 'b' WHERE id = 11")
    run(hq, f"DELETE FROM {part} WHERE id = 12")
    assert logged(hq) == [("I", 11), ("U", 11), ("D", 12), ("I", 12)]
    run(hq, f"TRUNCATE {part}")
    assert ("T", None) in logged(hq)
    assert lacking(hq) == []
    assert masters.repair_snapshot_logs(hq) == [
        masters.RepairedLog(table="t", parts=())
    ]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("how", LATER)
def test_a_refresh_is_fast_all_the_same(sites: Directory, how: str) -> None:
    """Rows that came with the part are compared; after that the log has all."""
    hq, jfk = sites["hq"], sites["jfk"]
    made, later = LATER[how]
    run(hq, *made, "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    *before, last = later
    run(hq, *before, *["INSERT INTO late (id, v) VALUES (15, 'came')"][: len(before)])
    run(hq, last, "INSERT INTO late (id, v) VALUES (11, 'a'), (12, 'a')")
    assert refresh(jfk, "t")["t"].method == "fast"
    assert_equal_to_master(jfk)
    run(hq, "UPDATE late SET v = 'b' WHERE id = 11", "DELETE FROM late WHERE id = 12")
    done = refresh(jfk, "t")["t"]
    assert (done.method, done.window_keys) == ("fast", 2)
    assert_equal_to_master(jfk)


#: Whoever attaches it to another table with a log has to drop its triggers first.
WITHOUT = [
    f"DROP TRIGGER snaptide_mlog_{event} ON low"
    for event in ("insert", "update", "delete", "truncate")
]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("meanwhile", [[], WITHOUT], ids=["as it was", "bare"])
def test_a_partition_that_was_away_is_compared(
    sites: Directory, meanwhile: list[str]
) -> None:
    """It has triggers again, as if nothing had been, but perhaps had none meanwhile.

    It lacks in any case the one that a native subscription fires.
    """
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        *PARTITIONED,
        "INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'a')",
        "CREATE TABLE c (id int PRIMARY KEY)",
        "INSERT INTO c VALUES (1), (2), (3)",
    )
    log(hq, "t", "c")
    snapshots.create(jfk, "t", master="hq")
    found = "EXISTS (SELECT FROM t WHERE t.id = c.id AND t.v = 'a')"
    snapshots.create(jfk, "c", master="hq", where=found)
    for name in ("t", "c"):
        refresh(jfk, name)
    run(hq, "ALTER TABLE t DETACH PARTITION low")
    run(hq, *meanwhile, "UPDATE low SET v = 'away' WHERE id = 1")
    run(hq, "DELETE FROM low WHERE id = 2")
    run(hq, "ALTER TABLE t ATTACH PARTITION low FOR VALUES FROM (0) TO (10)")
    assert lacking(hq) == []
    for name in ("t", "c"):
        assert refresh(jfk, name)[name].method == "complete"
    assert_equal_to_master(jfk)
    run(hq, "UPDATE low SET v = 'seen'")
    for name in ("t", "c"):
        assert refresh(jfk, name)[name].method == "fast"
    assert_equal_to_master(jfk)


HOSTILE = QualifiedName("o\"d'd %1$s", 't {0} ";--')


def test_names_and_a_search_path_that_mislead(sites: Directory) -> None:
    hq = sites["hq"]
    schema, table = map(quoted, (HOSTILE.schema, HOSTILE.name))
    run(
        hq,
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.{table} (id int PRIMARY KEY) PARTITION BY HASH (id)",
    )
    log(hq, f"{schema}.{table}")
    run(
        hq,
        "CREATE SCHEMA evil",
        "CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text"
        " LANGUAGE sql AS $$ SELECT 'DROP SCHEMA snaptide CASCADE' $$",
        "CREATE TABLE evil.pg_inherits (inhrelid oid, inhparent oid)",
        "CREATE TABLE evil.pg_trigger (tgrelid oid)",
        "SET LOCAL search_path = evil, pg_catalog",
        f'CREATE TABLE {schema}."%2$I" PARTITION OF {schema}.{table}'
        " FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        f'INSERT INTO {schema}."%2$I" VALUES (1)',
    )
    assert logged(hq, f"{schema}.{table}") == [("I", 1)]
    assert lacking(hq) == []


def test_savepoints_and_what_is_rolled_back(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, *PARTITIONED)
    log(hq, "t")
    create = "CREATE TABLE late PARTITION OF t FOR VALUES FROM (10) TO (20)"
    run(
        hq,
        "SAVEPOINT one",
        create,
        "INSERT INTO late VALUES (11)",
        "ROLLBACK TO one",
        "SAVEPOINT two",
        create,
        "RELEASE two",
        "INSERT INTO late VALUES (12)",
    )
    assert logged(hq) == [("I", 12)]
    assert lacking(hq) == []


def test_the_owner_of_the_table_needs_no_further_right(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, *PARTITIONED)
    log(hq, "t")
    with application(hq) as user:
        user.execute("CREATE ROLE owner_of_t")
        user.execute("GRANT CREATE ON SCHEMA public TO owner_of_t")
        user.execute("ALTER TABLE public.t OWNER TO owner_of_t")
        # As snaptide log repair does.
        user.execute('GRANT EXECUTE ON FUNCTION snaptide."mlog$_t"() TO owner_of_t')
        user.execute("SET LOCAL ROLE owner_of_t")
        user.execute("CREATE TABLE public.late PARTITION OF public.t DEFAULT")
        user.execute("INSERT INTO public.late VALUES (11)")
        user.execute("RESET ROLE")
        found = user.execute('SELECT kind::text, k1 FROM snaptide."mlog$_t"')
        assert found.fetchall() == [("I", 11)]
        # The role would be one of the whole cluster.
        user.rollback()


def test_what_was_missing_before_is_left_to_the_refresh(sites: Directory) -> None:
    """Nobody knows what was changed meanwhile."""
    hq = sites["hq"]
    run(hq, *PARTITIONED)
    log(hq, "t")
    run(
        hq,
        *(
            f"DROP TRIGGER snaptide_mlog_{event} ON low"
            for event in ("insert", "update", "delete", "truncate")
        ),
    )
    run(hq, "ALTER TABLE t ADD more int", "ALTER TABLE low ADD CHECK (id < 10)")
    assert lacking(hq) == ["low"]
    assert masters.repair_snapshot_logs(hq, "t")[0].parts == ("low",)
    assert lacking(hq) == []


def test_triggers_that_cannot_be_created_stop_nobody(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, *INHERITED, "CREATE TABLE o (id int PRIMARY KEY, v text)")
    log(hq, "t", "o")
    said: list[str] = []
    with application(hq) as user:
        user.add_notice_handler(
            lambda one: said.append(f"{one.message_primary}. {one.message_hint}")
        )
        user.execute("CREATE TABLE public.of_two () INHERITS (public.t, public.o)")
        user.execute("INSERT INTO public.of_two VALUES (1)")
        user.commit()
    [told] = [one for one in said if "Snaptide" in one]
    assert "could not be created: trigger" in told
    assert "The next refresh" in told


def test_tables_without_a_log_are_none_of_its_business(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, *PARTITIONED)
    log(hq, "t")
    run(hq, "CREATE TABLE o (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    run(hq, "CREATE TABLE o1 PARTITION OF o DEFAULT", "CREATE TABLE plain (id int)")
    run(hq, "CREATE TABLE below () INHERITS (plain)")
    ours = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'snaptide_mlog%' AND"
    for name in ("o", "o1", "plain", "below"):
        assert scalar(hq, f"{ours} tgrelid = '{name}'::regclass") == 0


def test_it_comes_with_the_first_log_and_goes_with_the_last(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, *PARTITIONED, "CREATE TABLE o (id int PRIMARY KEY)")
    assert not _is_there(hq)
    log(hq, "t", "o")
    masters.drop_snapshot_log(hq, "o")
    assert _is_there(hq)
    masters.drop_snapshot_log(hq, "t")
    assert not _is_there(hq)
    run(hq, "CREATE TABLE late PARTITION OF t DEFAULT")


def test_an_upgrade_brings_that_of_its_version(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, *PARTITIONED)
    log(hq, "t")
    run(
        hq,
        "CREATE OR REPLACE FUNCTION snaptide.arm_parts() RETURNS event_trigger"
        " LANGUAGE plpgsql AS $$ BEGIN END $$",
    )
    [found] = _told(hq)
    assert (found.severity, "another version" in found.what) == ("warning", True)
    migrate.upgrade(hq)
    assert _told(hq) == []
    run(hq, f"ALTER EVENT TRIGGER {arming.TRIGGER} DISABLE")
    assert "not always on" in _told(hq)[0].what
    masters.repair_snapshot_logs(hq)
    assert _told(hq) == []
    masters.drop_snapshot_log(hq, "t")
    migrate.downgrade(hq, "base")
    assert not _is_there(hq)


def _is_there(site: Site) -> bool:
    return bool(scalar(site, "SELECT count(*) FROM pg_event_trigger"))


def _told(site: Site) -> list[doctor.Finding]:
    found = doctor.examine(site, informed=True)
    return [one for one in found if arming.TRIGGER in one.subject]
