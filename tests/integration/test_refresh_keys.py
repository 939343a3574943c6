"""Keys that a fast refresh looks up, of types that are easily taken for others."""

import pytest
from pyspark.sql import SparkSession

import deferred
import snapshots
from sites import Directory
from snapshots.definitions.errors import KeyGenerated
from snapshots.differences import comparison
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

ROWS = ("ROW(1, 'a,\"b')", "ROW(NULL, NULL)")


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("int[]", ["'{1,2}'", "'{}'", "'{3,NULL}'"]),
        ("text[]", [r"""'{a,"b \"c\\"}'""", "'{{x},{y}}'"]),
        ("public.pair", [f"{row}::public.pair" for row in ROWS]),
        ("public.several", ["'{1,2}'", "'{3}'"]),
    ],
)
def test_keys_of_several_values(sites: Directory, kind: str, keys: list[str]) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(
            site,
            "CREATE TYPE public.pair AS (a int, b text)",
            "CREATE DOMAIN public.several AS int[]",
        )
    run(hq, f"CREATE TABLE public.t (id {kind}, n int, v text, PRIMARY KEY (id, n))")
    run(hq, *(f"INSERT INTO public.t VALUES ({key}, 1, 'old')" for key in keys))
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(hq, "UPDATE public.t SET v = 'new'")
    assert refresh(jfk, "t")["t"].updated == len(keys)
    run(jfk, f"DELETE FROM public.t WHERE id = {keys[0]}")
    assert deferred.push(jfk, "hq").errors == 0
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [("numeric", "1.0", "1.00"), ("float", "-0", "0"), ("char(3)", "a", "a  ")],
)
def test_a_key_that_is_spelt_anew_while_a_parent_changes(
    sites: Directory, kind: str, one: str, other: str
) -> None:
    """The site spells it in one way, and the master in another."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, store int)",
        f"CREATE TABLE public.c (id {kind} PRIMARY KEY, p int REFERENCES public.p)",
        "INSERT INTO public.p VALUES (1, 1)",
        f"INSERT INTO public.c VALUES ('{one}', 1)",
    )
    log(hq, "p", "c")
    snapshots.create(jfk, "p", master="hq", group="g", where="store IN (1, 2)")
    snapshots.create(jfk, "c", master="hq", group="g", follow=["p"])
    refresh(jfk, "g")
    run(hq, f"UPDATE public.c SET id = '{other}'", "UPDATE public.p SET store = 2")
    done = refresh(jfk, "g")["c"]
    assert (done.method, done.inserted, done.deleted) == ("fast", 0, 0)
    assert_equal_to_master(jfk)


@pytest.mark.parametrize(
    ("kind", "wider", "value"),
    [
        ("timestamp(0)", "timestamp", "'2020-01-02 10:00:00.25'"),
        ("time(0)[]", "time[]", "'{10:00:00.25}'"),
        ("interval day", "interval", "'1 day 10:00'"),
        ("bit(3)", "bit(5)", "'10101'"),
        ("numeric(6,2)[]", "numeric[]", "'{1.125}'"),
    ],
)
def test_a_key_is_recorded_as_it_is_once_its_column_is_wider(
    sites: Directory, kind: str, wider: str, value: str
) -> None:
    """The log was made when no value had more digits."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE public.t (id {kind} PRIMARY KEY, v int)")
    log(hq, "t")
    run(hq, f"ALTER TABLE public.t ALTER id TYPE {wider}")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    run(hq, f"INSERT INTO public.t VALUES ({value}, 1)")
    assert refresh(jfk, "t")["t"].inserted == 1
    assert_equal_to_master(jfk)


@pytest.mark.parametrize("most", [comparison.SMALL_WINDOW, 0])
@pytest.mark.parametrize(
    ("kind", "wider", "kept", "gone"),
    [
        ("varchar(5)", "varchar(9)", "'abcde'", "'abcdefg'"),
        ("public.short", "varchar(9)", "'abcde'", "'abcdefg'"),
    ],
)
def test_what_a_key_would_be_cut_to_is_another_row(
    sites: Directory,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    kind: str,
    wider: str,
    kept: str,
    gone: str,
) -> None:
    """The master has longer keys by now, none of them in the snapshot."""
    monkeypatch.setattr(comparison, "SMALL_WINDOW", most)
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, "CREATE DOMAIN public.short AS varchar(5)")
    run(
        hq,
        f"CREATE TABLE public.t (id {kind} PRIMARY KEY, v text)",
        f"INSERT INTO public.t VALUES ({kept}, 'kept')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    run(hq, f"ALTER TABLE public.t ALTER id TYPE {wider}")
    run(hq, f"INSERT INTO public.t VALUES ({gone}, 'gone')")
    run(hq, f"DELETE FROM public.t WHERE id = {gone}")
    assert refresh(jfk, "t", method="f")["t"].deleted == 0
    assert run(jfk, "SELECT v FROM public.t") == [("kept",)]


@pytest.mark.parametrize("base", ["text", "int", "varchar(3)"])
def test_unique_value_of_a_domain_without_null_passes_on(
    sites: Directory, base: str
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(
            site,
            f"CREATE DOMAIN public.inner_code AS {base} NOT NULL",
            "CREATE DOMAIN public.code AS public.inner_code",
        )
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v public.code UNIQUE)",
        "INSERT INTO public.t VALUES (1, '1'), (2, '2')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(
        hq,
        "DELETE FROM public.t WHERE id = 1",
        "INSERT INTO public.t VALUES (3, '1')",
    )
    refresh(jfk, "t")
    assert_equal_to_master(jfk)
    run(
        jfk,
        "DELETE FROM public.t WHERE id = 2",
        "INSERT INTO public.t VALUES (4, '2')",
    )
    assert deferred.push(jfk, "hq").errors == 0
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


def test_generated_key(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (a int, v text,"
        " id int GENERATED ALWAYS AS (a * 2) STORED PRIMARY KEY)",
        "INSERT INTO public.t (a, v) SELECT n, 'old' FROM generate_series(1, 3) n",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    run(
        hq,
        "UPDATE public.t SET v = 'new' WHERE id = 2",
        "UPDATE public.t SET a = 7 WHERE id = 4",
        "DELETE FROM public.t WHERE id = 6",
    )
    for method in "fc":
        refresh(jfk, "t", method=method)
        assert_equal_to_master(jfk)
    with pytest.raises(KeyGenerated, match="identified by id"):
        snapshots.create(jfk, "u", table="t", master="hq", updatable=True)


def test_rows_that_both_sides_have_are_not_compared(
    sites: Directory, spark: SparkSession
) -> None:
    """What a site has pushed comes back as the site has it: Spark need not see it."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY, v text, b bytea, n numeric)")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(
        jfk,
        r"INSERT INTO public.t VALUES (1, E'a\n\"b\",\r\n', '\x00ff', 1.50),"
        r" (2, NULL, NULL, NULL), (3, '', '\x', 0), (4, '\N', NULL, 1)",
    )
    assert deferred.push(jfk, "hq").errors == 0
    spark.sparkContext.setJobGroup("alike", "counted below")
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
    report = refresh(jfk, "t")["t"]
    assert (report.window_keys, report.updated, jobs("alike")) == (4, 0, [])
    # A value that prints otherwise, NULL that was empty, a row that is gone.
    run(
        hq,
        "UPDATE public.t SET n = 1.5 WHERE id = 1",
        "UPDATE public.t SET v = NULL WHERE id = 3",
        "DELETE FROM public.t WHERE id = 2",
    )
    report = refresh(jfk, "t")["t"]
    assert (report.updated, report.deleted, len(jobs("alike"))) == (2, 1, 1)
    assert_equal_to_master(jfk)
