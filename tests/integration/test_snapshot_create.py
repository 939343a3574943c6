"""Creating snapshots: what is taken over from the master, and what is refused."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest

import snapshots
from masters.errors import NoSnapshotLog
from sites import Directory
from sites.conditions.where import BadCondition, ConditionNotImmutable
from sites.errors import BadName, UnknownTable
from snapshots.definitions.errors import (
    CannotPark,
    ColumnsLeftOut,
    IdentityLeftOut,
    MissingAtSite,
    MixedMasters,
    NameTaken,
    SnapshotRefused,
    UndeliveredCalls,
    UnknownColumn,
    UnknownSnapshot,
)
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.let_go import WAITS
from tests.linked_table import run

TABLE = """
CREATE TABLE public.t (
    id int PRIMARY KEY,
    origin text, at timestamptz, day date, v numeric(10, 2) DEFAULT 1
)
"""


@pytest.fixture
def hq(sites: Directory):
    run(sites["hq"], TABLE)
    log(sites["hq"], "t")
    return sites["hq"]


@pytest.mark.parametrize(
    "condition",
    [
        "at > now()",
        "at > current_date",
        "origin = current_user",
        "random() > 0.5",
        "day::timestamptz > at",
        "at::text = 'x'",
        "to_char(at, 'YYYY') = '2013'",
    ],
)
def test_condition_that_is_not_immutable(hq, jfk, condition):
    with pytest.raises(ConditionNotImmutable) as refused:
        snapshots.create(jfk, "t", master="hq", where=condition)
    assert "IMMUTABLE" in refused.value.message


def test_the_part_that_is_not_immutable_is_named(hq, jfk):
    where = "v > 1 AND (origin = 'x' OR at > now())"
    with pytest.raises(ConditionNotImmutable, match=r"because of at > now\(\) \("):
        snapshots.create(jfk, "t", master="hq", where=where)


@pytest.mark.parametrize(
    "condition",
    [
        "t IS NOT NULL",
        "v > 1 OR t.* = t",
        "id IN (SELECT p.id FROM public.t p WHERE p IS NOT NULL)",
    ],
)
def test_a_condition_that_a_new_column_would_change(hq, jfk, condition):
    with pytest.raises(BadCondition, match="name the columns of"):
        snapshots.create(jfk, "t", master="hq", where=condition)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("(v = 1", "it ends too early"),
        ("v = 1 AND", "it ends too early"),
        ("", "it ends too early"),
        ("origin = 'x", "unterminated quoted string"),
        ("v = 1)", 'syntax error at or near "\\)"'),
        ("v = = 1", 'syntax error at or near "="'),
    ],
)
def test_a_condition_that_does_not_parse(hq, jfk, condition, reason):
    with pytest.raises(BadCondition, match=f": {reason}") as refused:
        snapshots.create(jfk, "t", master="hq", where=condition)
    assert "THEN" not in refused.value.message


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "origin",
        "nothing = 1",
        "origin = 'x",
        "id = (SELECT 1)",
        "count(*) > 1",
        "true); DROP TABLE public.t; --",
        "true) WITH (fillfactor = 10",
        "id = $1",
    ],
)
def test_condition_that_is_no_condition(hq, jfk, condition):
    with pytest.raises(BadCondition):
        snapshots.create(jfk, "t", master="hq", where=condition)
    assert run(hq, "SELECT count(*) FROM public.t") == [(0,)]
    assert run(hq, "SELECT * FROM snaptide.registered_snapshot") == []


def test_condition_is_kept_as_the_master_prints_it(hq, jfk):
    made = snapshots.create(
        jfk, "t", master="hq", where="t.origin LIKE 'JFK%' AND v > 1 -- theirs"
    )
    assert made.condition == "((origin ~~ 'JFK%'::text) AND (v > (1)::numeric))"


def test_condition_on_a_column_that_is_left_out(hq, jfk):
    with pytest.raises(SnapshotRefused, match="origin"):
        snapshots.create(jfk, "t", master="hq", columns=["id"], where="origin = 'x'")


def test_names_are_only_names(hq, jfk):
    with pytest.raises(BadName):
        snapshots.create(jfk, 't"; DROP TABLE public.t; --', master="hq")
    with pytest.raises(UnknownTable):
        snapshots.create(jfk, "x; DROP TABLE t --", master="hq")
    snapshots.create(jfk, "; DROP TABLE x --", master="hq", table="t")
    assert [s.name for s in snapshots.list_snapshots(jfk)] == ["; DROP TABLE x --"]


def test_master_table_without_a_log(sites, jfk):
    run(sites["hq"], "CREATE TABLE public.u (id int PRIMARY KEY)")
    with pytest.raises(NoSnapshotLog):
        snapshots.create(jfk, "u", master="hq")


def test_columns(hq, jfk):
    with pytest.raises(UnknownColumn):
        snapshots.create(jfk, "t", master="hq", columns=["id", "nope"])
    with pytest.raises(IdentityLeftOut, match="id"):
        snapshots.create(jfk, "t", master="hq", columns=["v"])
    run(hq, "ALTER TABLE public.t ADD must int NOT NULL")
    with pytest.raises(ColumnsLeftOut, match="must"):
        snapshots.create(jfk, "t", master="hq", columns=["id", "v"], updatable=True)
    made = snapshots.create(jfk, "t", master="hq", columns=["id", "v"])
    assert made.columns == ("id", "v")


def test_unique_value_that_cannot_be_parked(sites, jfk):
    run(
        sites["hq"],
        "CREATE TABLE public.u (id int PRIMARY KEY, d date NOT NULL UNIQUE)",
    )
    log(sites["hq"], "u")
    with pytest.raises(CannotPark):
        snapshots.create(jfk, "u", master="hq")


def test_taken_names(hq, jfk):
    run(jfk, "CREATE TABLE public.t (id int)")
    with pytest.raises(NameTaken):
        snapshots.create(jfk, "t", master="hq")
    snapshots.create(jfk, "t2", master="hq", table="t")
    with pytest.raises(NameTaken):
        snapshots.create(jfk, "t2", master="hq", table="t")
    with pytest.raises(MissingAtSite, match="elsewhere"):
        snapshots.create(jfk, "elsewhere.t", master="hq", table="t")


def test_one_group_one_master(make_sites):
    sites = make_sites("hq", "lga", "jfk")
    for name in ("hq", "lga"):
        run(sites[name], TABLE)
        log(sites[name], "t")
    snapshots.create(sites["jfk"], "a", master="hq", table="t", group="g")
    with pytest.raises(MixedMasters):
        snapshots.create(sites["jfk"], "b", master="lga", table="t", group="g")
    assert run(sites["lga"], "SELECT * FROM snaptide.registered_snapshot") == []


@pytest.mark.parametrize("other", ["t", "t2"])
def test_two_at_once_in_a_new_group(hq, jfk, moments, other):
    with ThreadPoolExecutor(1) as pool:
        began = []

        def meanwhile():
            create = partial(snapshots.create, jfk, table="t", master="hq", group="g")
            began.append(pool.submit(create, other))
            eventually(lambda: run(jfk, WAITS))

        moments.at("snapshot_create.before_commit", meanwhile)
        snapshots.create(jfk, "t", master="hq", group="g")
        if other == "t":
            with pytest.raises(NameTaken, match="A snapshot t already exists"):
                began[0].result()
        else:
            began[0].result()
    names = {str(one.name) for one in snapshots.list_snapshots(jfk)}
    assert names == {"t", other}


def test_failure_leaves_nothing(hq, jfk, monkeypatch):
    monkeypatch.setenv("SNAPTIDE_FAULT", "snapshot_create.before_commit:error")
    with pytest.raises(Exception, match="snapshot_create"):
        snapshots.create(jfk, "t", master="hq", updatable=True)
    assert run(hq, "SELECT * FROM snaptide.registered_snapshot") == []
    assert snapshots.list_snapshots(jfk) == []
    assert run(jfk, "SELECT to_regclass('public.\"snap$_t\"')") == [(None,)]
    assert run(jfk, "SELECT * FROM snaptide.refresh_group") == []


def test_what_the_site_does_not_get_is_said(sites, jfk):
    hq = sites["hq"]
    run(
        hq,
        "CREATE TABLE public.customers (id int PRIMARY KEY, region text)",
        "CREATE TABLE public.shops (id int PRIMARY KEY)",
        "CREATE TABLE public.orders (id int GENERATED BY DEFAULT AS IDENTITY"
        " PRIMARY KEY, customer int CONSTRAINT of_customer REFERENCES public.customers,"
        " shop int CONSTRAINT of_shop REFERENCES public.shops,"
        " twin int CONSTRAINT of_twin REFERENCES public.orders,"
        " qty int CONSTRAINT positive CHECK (qty > 0), code int, inside int,"
        " CONSTRAINT single EXCLUDE USING btree (code WITH =), UNIQUE (inside, qty))",
        "CREATE INDEX by_inside ON public.orders (inside)",
        "CREATE FUNCTION public.stamp() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER stamps BEFORE INSERT ON public.orders FOR EACH ROW"
        " EXECUTE FUNCTION public.stamp()",
    )
    log(hq, "customers", "orders", "shops")
    snapshots.create(jfk, "customers", master="hq", group="g", where="region = 'a'")
    columns = ["id", "customer", "shop", "twin", "qty", "code"]
    made = snapshots.create(
        jfk, "orders", master="hq", group="g", updatable=True, columns=columns
    )
    said = {one.partition(":")[0]: one for one in made.left_out}
    assert made.numbers == {"id": "lease"}
    assert said.keys() == {
        "index by_inside",
        "unique key orders_inside_qty_key",
        "check positive",
        "exclusion constraint single",
        "trigger stamps",
        "foreign key of_customer to customers",
        "foreign key of_shop to shops",
    }
    assert "has a condition" in said["foreign key of_customer to customers"]
    assert "no snapshot of shops" in said["foreign key of_shop to shops"]
    assert "CHECK ((qty > 0))" in said["check positive"]
    assert "stamp" in said["trigger stamps"]
    alone = snapshots.create(jfk, "shops", master="hq", group="g")
    assert alone.left_out == ()


def test_type_that_the_site_lacks(sites, jfk):
    run(
        sites["hq"],
        "CREATE TYPE public.mood AS ENUM ('glad', 'sad')",
        "CREATE TABLE public.u (id int PRIMARY KEY, m public.mood)",
    )
    log(sites["hq"], "u")
    with pytest.raises(MissingAtSite, match="mood"):
        snapshots.create(jfk, "u", master="hq")


@pytest.mark.usefixtures("spark")
class TestLoaded:
    def test_constraints_indexes_and_defaults(self, sites, jfk):
        run(
            sites["hq"],
            "CREATE SEQUENCE public.numbers",
            'CREATE TABLE public.u (a int, b text COLLATE "C", c int UNIQUE,'
            " d int DEFAULT nextval('public.numbers'), e text DEFAULT 'x' || 'y',"
            " f int GENERATED ALWAYS AS (a * 2) STORED, PRIMARY KEY (b, a))",
            "CREATE INDEX ON public.u (e DESC NULLS LAST) INCLUDE (d)",
            "CREATE INDEX half ON public.u (e) WHERE a > 1",
            "INSERT INTO public.u (a, b, c) VALUES (1, 'x', 1), (2, 'y', NULL)",
        )
        log(sites["hq"], "u")
        made = snapshots.create(jfk, "u", master="hq", updatable=True)
        assert any("half" in reason for reason in made.left_out)
        assert made.numbers == {"d": "lease"}
        snapshots.refresh(jfk, "u")
        everything = "SELECT * FROM public.u ORDER BY a"
        assert run(jfk, everything) == run(sites["hq"], everything)
        run(jfk, "INSERT INTO public.u (a, b) VALUES (3, 'z')")
        assert run(jfk, "SELECT e, f, d FROM public.u WHERE a = 3") == [("xy", 6, 3)]
        defs = " ".join(
            str(row[0])
            for row in run(
                jfk,
                "SELECT pg_get_indexdef(indexrelid) FROM pg_index"
                " WHERE indrelid = 'public.\"snap$_u\"'::regclass",
            )
        )
        assert "(b, a)" in defs
        assert "(c)" in defs
        assert "(e DESC NULLS LAST) INCLUDE (d)" in defs

    def test_site_cannot_write_what_is_not_its_own(self, hq, jfk):
        snapshots.create(jfk, "t", master="hq", where="origin = 'JFK'", updatable=True)
        snapshots.refresh(jfk, "t")
        run(jfk, "INSERT INTO public.t (id, origin) VALUES (1, 'JFK')")
        with pytest.raises(psycopg.Error, match="check option"):
            run(jfk, "INSERT INTO public.t (id, origin) VALUES (2, 'LGA')")
        with pytest.raises(psycopg.Error, match="cannot be truncated"):
            run(jfk, 'TRUNCATE public."snap$_t"')

    def test_read_only(self, hq, jfk):
        snapshots.create(jfk, "t", master="hq")
        with pytest.raises(psycopg.Error, match="does not exist"):
            run(jfk, "SELECT * FROM public.t")
        snapshots.refresh(jfk, "t")
        for statement in ("DELETE FROM public.t", "INSERT INTO public.t VALUES (1)"):
            with pytest.raises(psycopg.Error, match="read-only"):
                run(jfk, statement)

    def test_drop(self, hq, jfk):
        snapshots.create(jfk, "t", master="hq", updatable=True)
        snapshots.refresh(jfk, "t")
        run(jfk, "INSERT INTO public.t VALUES (1)")
        with pytest.raises(UndeliveredCalls):
            snapshots.drop(jfk, "t")
        snapshots.drop(jfk, "t", force=True)
        assert run(hq, "SELECT * FROM snaptide.registered_snapshot") == []
        left = run(
            jfk,
            "SELECT relname FROM pg_class WHERE relname LIKE '%$%' AND relkind <> 't'"
            " UNION ALL SELECT proname FROM pg_proc WHERE proname LIKE '%$%'",
        )
        assert left == []
        with pytest.raises(UnknownSnapshot):
            snapshots.drop(jfk, "t")
        snapshots.create(jfk, "t", master="hq", updatable=True)
        snapshots.refresh(jfk, "t")
