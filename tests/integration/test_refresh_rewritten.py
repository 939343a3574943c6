"""DDL that changes values of a master table while no trigger of a row fires."""

import pytest

import deferred
import groups
import snapshots
from deferred.errors import TargetColumnsMoved
from sites import Directory, Site
from snapshots.errors import ColumnChanged
from tests.fix_sites import log
from tests.grouped import GROUP
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

COLUMNS = "id int PRIMARY KEY, a text, b text, n numeric(10,3)"
VALUES = "(10, 'a', 'b', 1.125), (20, 'a', 'b', 2.25)"

SWAP = (
    "ALTER TABLE public.t RENAME a TO c",
    "ALTER TABLE public.t RENAME b TO a",
    "ALTER TABLE public.t RENAME c TO b",
)
NEW_KEY = (
    "ALTER TABLE public.t DROP id",
    "ALTER TABLE public.t ADD id serial PRIMARY KEY",
)
NEW_COLUMN = (
    "ALTER TABLE public.t DROP b",
    "ALTER TABLE public.t ADD b text DEFAULT 'new'",
)
ALTERATIONS = {
    "another value": ["ALTER TABLE public.t ALTER n TYPE numeric(10,3) USING n + 1"],
    "rounded": ["ALTER TABLE public.t ALTER n TYPE numeric(10,1)"],
    "another column": NEW_COLUMN,
    "names swapped": SWAP,
    "another key": NEW_KEY,
}


PARTITIONED = " PARTITION BY RANGE (id)"


@pytest.fixture(params=["", PARTITIONED], ids=["table", "partitions"])
def kind(request: pytest.FixtureRequest) -> str:
    """How the master table is kept."""
    return str(request.param)


def _make(sites: Directory, kind: str, columns: str = COLUMNS) -> Site:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE public.t ({columns}){kind}")
    if kind:
        run(hq, "CREATE TABLE public.part PARTITION OF public.t DEFAULT")
    run(hq, f"INSERT INTO public.t VALUES {VALUES}")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    return jfk


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        (how, kind)
        for how in ALTERATIONS
        for kind in ("", PARTITIONED)
        # A column of the partition key cannot be dropped.
        if (how, kind) != ("another key", PARTITIONED)
    ],
)
def test_the_next_refresh_compares_all(sites: Directory, how: str, kind: str) -> None:
    jfk = _make(sites, kind)
    run(sites["hq"], *ALTERATIONS[how])
    assert refresh(jfk, "t")["t"].method == "complete"
    assert_equal_to_master(jfk)
    run(sites["hq"], "UPDATE public.t SET a = 'later'")
    assert refresh(jfk, "t")["t"].method == "fast"
    assert_equal_to_master(jfk)


def test_rows_are_compared_although_others_were_written(sites: Directory) -> None:
    """The log holds keys of before the alteration, and of after it."""
    jfk = _make(sites, "")
    run(sites["hq"], "UPDATE public.t SET a = 'x' WHERE id = 10")
    run(sites["hq"], *SWAP)
    run(sites["hq"], "UPDATE public.t SET a = 'y' WHERE id = 10")
    assert refresh(jfk, "t", method="f")["t"].method == "complete"
    assert_equal_to_master(jfk)


def test_waiting_changes_go_to_no_other_column(sites: Directory) -> None:
    """They were made for the columns that the site showed by these names."""
    hq, jfk = sites["hq"], _make(sites, "")
    run(jfk, "UPDATE public.t SET a = 'mine' WHERE id = 10")
    run(hq, *SWAP)
    with pytest.raises(TargetColumnsMoved, match="that one is called b"):
        snapshots.refresh(jfk, "t", push_deferred_rpc=False)
    snapshots.refresh(jfk, "t")
    assert run(hq, "SELECT a, b FROM public.t WHERE id = 10") == [("b", "mine")]
    run(jfk, "UPDATE public.t SET a = 'later' WHERE id = 10")
    deferred.push(jfk, "hq")
    refresh(jfk, "t")
    assert run(hq, "SELECT a, b FROM public.t WHERE id = 10") == [("later", "mine")]
    assert_equal_to_master(jfk)


def test_waiting_changes_do_not_go_to_what_has_taken_a_place(sites: Directory) -> None:
    """Neither while the column that was meant is there nor once it is gone."""
    hq, jfk = sites["hq"], _make(sites, "")
    run(jfk, "UPDATE public.t SET a = 'mine' WHERE id = 10")
    run(
        hq,
        "ALTER TABLE public.t RENAME a TO was",
        "ALTER TABLE public.t ADD a varchar(20)",
    )
    run(hq, "UPDATE public.t SET a = was")
    deferred.push(jfk, "hq")
    assert run(hq, "SELECT a, was FROM public.t WHERE id = 10") == [("a", "mine")]
    run(jfk, "UPDATE public.t SET a = 'late' WHERE id = 10")
    run(hq, "ALTER TABLE public.t DROP was")
    with pytest.raises(TargetColumnsMoved, match="that one is gone"):
        snapshots.refresh(jfk, "t", push_deferred_rpc=False)
    snapshots.refresh(jfk, "t")
    assert [one.reason for one in deferred.list_errors(hq)] == ["column gone"]
    assert run(hq, "SELECT a FROM public.t WHERE id = 10") == [("a",)]
    assert_equal_to_master(jfk)


def test_through_a_group(sites: Directory) -> None:
    hq, jfk = sites["hq"], _make(sites, "")
    groups.create_group(hq, GROUP)
    groups.add_table(hq, GROUP, "t")
    refresh(jfk, "t")
    groups.suspend(hq, GROUP)
    groups.execute_ddl(hq, GROUP, "; ".join(SWAP))
    groups.resume(hq, GROUP)
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


def test_files_that_are_written_anew_are_compared_once(sites: Directory) -> None:
    jfk = _make(sites, "")
    for statement in ("CLUSTER public.t USING t_pkey", "TRUNCATE public.t"):
        run(sites["hq"], statement)
        assert refresh(jfk, "t")["t"].method == "complete"
        assert refresh(jfk, "t")["t"].method == "fast"


def test_an_unlogged_table_is_always_compared(sites: Directory) -> None:
    """A crash of the server would empty it, and leave it the file that it had."""
    jfk = _make(sites, "")
    run(sites["hq"], "ALTER TABLE public.t SET UNLOGGED")
    for _ in range(2):
        assert refresh(jfk, "t")["t"].method == "complete"
    run(sites["hq"], "ALTER TABLE public.t SET LOGGED")
    assert refresh(jfk, "t")["t"].method == "complete"
    assert refresh(jfk, "t")["t"].method == "fast"


def test_what_the_site_computes_itself_it_cannot_follow(sites: Directory) -> None:
    generated = "{} numeric GENERATED ALWAYS AS (n * {}) STORED"
    jfk = _make(sites, "", f"{COLUMNS}, {generated.format('g', 2)}")
    again = generated.format("g", 3)
    run(sites["hq"], "ALTER TABLE public.t DROP g", f"ALTER TABLE public.t ADD {again}")
    for _ in range(2):
        with pytest.raises(ColumnChanged, match=r"generates .*g differently"):
            refresh(jfk, "t")
    again = generated.format("g", 2)
    run(sites["hq"], "ALTER TABLE public.t DROP g", f"ALTER TABLE public.t ADD {again}")
    refresh(jfk, "t")
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT g FROM public.t ORDER BY id") == run(
        sites["hq"], "SELECT g FROM public.t ORDER BY id"
    )


def test_triggers_of_a_partition_were_off(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    _make(sites, " PARTITION BY RANGE (id)")
    run(
        hq,
        "ALTER TABLE public.part DISABLE TRIGGER ALL",
        "INSERT INTO public.part (id, a, b) VALUES (70, 'unseen', '')",
        "ALTER TABLE public.part ENABLE TRIGGER ALL",
    )
    assert refresh(jfk, "t")["t"].method == "complete"
    assert_equal_to_master(jfk)


def test_another_expression_of_a_value_that_a_condition_asks(sites: Directory) -> None:
    """PostgreSQL rewrites nothing: the value is computed whenever it is read."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, n int,"
        " twice int GENERATED ALWAYS AS (n * 2) VIRTUAL)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p)",
        "INSERT INTO public.p VALUES (1, 1), (2, 2)",
        "INSERT INTO public.c VALUES (10, 1), (20, 2)",
    )
    log(hq, "p", "c")
    two = "EXISTS (SELECT FROM p WHERE p.id = c.p AND p.twice = 2)"
    snapshots.create(jfk, "c", master="hq", where=two)
    refresh(jfk, "c")
    assert run(jfk, "SELECT id FROM public.c") == [(10,)]
    run(hq, "ALTER TABLE public.p ALTER twice SET EXPRESSION AS (n)")
    assert refresh(jfk, "c")["c"].method == "complete"
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT id FROM public.c") == [(20,)]
    assert refresh(jfk, "c")["c"].method == "fast"
