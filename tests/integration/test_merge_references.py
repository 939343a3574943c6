"""Foreign keys between the snapshots of a group, seen from the merge."""

import pytest

import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.sent import sent

pytestmark = pytest.mark.usefixtures("spark")

PARENTS = "SELECT * FROM public.p ORDER BY id"
CHILDREN = "SELECT * FROM public.c ORDER BY id"


def _make_tables(sites: Directory) -> None:
    run(
        sites["hq"],
        "CREATE TABLE public.p (id int PRIMARY KEY, v text)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p"
        " ON DELETE CASCADE, boss int REFERENCES public.c)",
        "INSERT INTO public.p SELECT i, 'p' FROM generate_series(1, 9) i",
        "INSERT INTO public.c SELECT i, i, NULL FROM generate_series(1, 9) i",
    )
    log(sites["hq"], "p", "c")


@prepared_once("hq", "jfk")
def tables(sites: Directory) -> None:
    _make_tables(sites)


@prepared_once("hq", "jfk", needs="spark")
def family(sites: Directory) -> None:
    _make_tables(sites)
    for name in ("c", "p"):
        snapshots.create(sites["jfk"], name, master="hq", group="g", updatable=True)
    snapshots.refresh(sites["jfk"], "g")


@pytest.fixture
def sites(request: pytest.FixtureRequest) -> Directory:
    """With snapshots for a test that takes `jfk`; else the tables alone."""
    both = "jfk" in request.fixturenames
    made: Directory = request.getfixturevalue("family" if both else "tables")
    return made


def pull(site, **options):
    report = snapshots.refresh(site, "g", push_deferred_rpc=False, **options)
    return {s.name: s for s in report.snapshots}


def equal(hq, jfk):
    return run(hq, PARENTS) == run(jfk, PARENTS) and run(hq, CHILDREN) == run(
        jfk, CHILDREN
    )


def foreign_keys(site):
    return run(
        site,
        "SELECT conname, condeferrable, convalidated, confdeltype FROM pg_constraint"
        " WHERE contype = 'f' AND connamespace = 'public'::regnamespace ORDER BY 1",
    )


def test_keys_are_taken_over(jfk):
    assert foreign_keys(jfk) == [
        ("c_boss_fkey", True, True, "a"),
        ("c_p_fkey", True, True, "c"),
    ]


def test_work_tables_are_made_for_what_keys_join_to_a_difference(hq, jfk):
    """Near or far: `d` refers to `c`, and that to `p`."""
    run(
        hq,
        "CREATE TABLE public.d (id int PRIMARY KEY, c int REFERENCES public.c)",
        "CREATE TABLE public.lone (id int PRIMARY KEY)",
    )
    log(hq, "d", "lone")
    for name in ("d", "lone"):
        snapshots.create(jfk, name, master="hq", group="g")
    pull(jfk)
    run(hq, "UPDATE public.p SET v = 'q' WHERE id = 1")
    with sent(jfk) as statements:
        done = pull(jfk)
    assert [done[name].updated for name in ("p", "c", "d", "lone")] == [1, 0, 0, 0]
    made = [s for s in statements if "TEMP TABLE" in s and "snaptide_merge_" in s]
    assert len(made) == 3


def test_parent_that_comes_later(sites, hq):
    site = sites["jfk"]
    snapshots.create(site, "c", master="hq", group="g")
    snapshots.refresh(site, "g")
    run(
        hq,
        "INSERT INTO public.p VALUES (10, 'p')",
        "INSERT INTO public.c VALUES (10, 10)",
    )
    snapshots.create(site, "p", master="hq", group="g")
    done = pull(site)
    assert (done["c"].method, done["p"].method) == ("fast", "load")
    assert len(foreign_keys(site)) == 2
    assert equal(hq, site)


def test_no_key_to_a_part_of_the_parent(sites, hq):
    site = sites["jfk"]
    snapshots.create(site, "p", master="hq", group="g", where="id > 5")
    snapshots.create(site, "c", master="hq", group="g", where="id > 3")
    snapshots.refresh(site, "g")
    assert foreign_keys(site) == []


def test_children_before_parents(hq, jfk):
    run(
        hq,
        "INSERT INTO public.p VALUES (10, 'new')",
        "INSERT INTO public.c VALUES (10, 10, 11), (11, 10, NULL)",
        "UPDATE public.c SET p = 10 WHERE id = 1",
        "DELETE FROM public.p WHERE id IN (1, 2)",
    )
    pull(jfk)
    assert equal(hq, jfk)


def test_child_of_a_parent_that_goes_is_pending(hq, jfk):
    run(jfk, "UPDATE public.c SET boss = 3 WHERE id = 1")
    run(hq, "DELETE FROM public.p WHERE id IN (1, 2)")
    done = pull(jfk)
    assert (done["p"].deleted, done["p"].held_back) == (1, 1)
    assert (done["c"].deleted, done["c"].held_back) == (1, 1)
    assert run(jfk, "SELECT boss FROM public.c WHERE id = 1") == [(3,)]


def test_new_child_of_a_user_keeps_its_parent(hq, jfk):
    run(hq, "DELETE FROM public.p WHERE id = 1")
    with jfk.begin() as user:
        user.exec_driver_sql("INSERT INTO public.c VALUES (20, 1, NULL)")
        done = pull(jfk)
        assert done["p"].held_back == 1
    assert pull(jfk)["p"].held_back == 1
    snapshots.refresh(jfk, "g")
    assert equal(hq, jfk)


def test_parent_that_a_user_is_about_to_delete(hq, jfk):
    run(hq, "INSERT INTO public.c VALUES (21, 5, NULL), (22, 6, 21), (23, 7, NULL)")
    with jfk.begin() as user:
        user.exec_driver_sql("DELETE FROM public.p WHERE id = 5")
        done = pull(jfk)
        # 21 has no parent, 22 no boss.
        assert (done["c"].inserted, done["c"].held_back) == (1, 2)
    snapshots.refresh(jfk, "g")
    snapshots.refresh(jfk, "g")
    assert run(hq, "SELECT count(*) FROM public.p WHERE id = 5") == run(
        jfk, "SELECT count(*) FROM public.p WHERE id = 5"
    )
    assert equal(hq, jfk)


def coded(sites, action, null="NULL"):
    """Orders with a code that lines refer to besides the key, and their snapshots."""
    run(
        sites["hq"],
        "CREATE TABLE public.orders (id int PRIMARY KEY, code text UNIQUE)",
        "CREATE TABLE public.lines (id int PRIMARY KEY, order_id int"
        f" REFERENCES public.orders, code text {null} REFERENCES public.orders (code)"
        f" ON UPDATE {action})",
        "INSERT INTO public.orders VALUES (0, NULL), (1, 'A'), (2, 'B')",
        "INSERT INTO public.lines VALUES (1, 1, 'A'), (2, 0, 'A'), (3, 2, 'B')",
    )
    log(sites["hq"], "orders", "lines")
    for name in ("orders", "lines"):
        snapshots.create(sites["jfk"], name, master="hq", group="g", updatable=True)
    snapshots.refresh(sites["jfk"], "g")
    return sites["jfk"]


def shown(site):
    return [run(site, f"SELECT * FROM public.{t} ORDER BY 1") for t in TABLES]


TABLES = ("orders", "lines")
ACTIONS = ("CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION")


@pytest.mark.parametrize("null", ["NULL", "NOT NULL"])
@pytest.mark.parametrize("action", ACTIONS)
def test_code_that_stays_when_its_row_changes_its_key(sites, action, null):
    jfk = coded(sites, action, null)
    run(
        sites["hq"],
        "UPDATE public.lines SET order_id = 0 WHERE order_id = 1",
        "UPDATE public.orders SET id = 7 WHERE id = 1",
        "UPDATE public.lines SET order_id = 7 WHERE id = 1",
    )
    assert [done.held_back for done in pull(jfk).values()] == [0, 0]
    assert shown(sites["hq"]) == shown(jfk)


@pytest.mark.parametrize("action", ACTIONS)
def test_codes_that_pass_on_while_nobody_refers_to_them(sites, action):
    jfk = coded(sites, action)
    away = "UPDATE public.lines SET code = NULL"
    back = "UPDATE public.lines SET code = CASE WHEN id < 3 THEN 'A' ELSE 'B' END"
    run(
        sites["hq"],
        away,
        "UPDATE public.orders SET code = 'C' WHERE id = 1",
        "UPDATE public.orders SET code = 'A' WHERE id = 2",
        "UPDATE public.orders SET code = 'B' WHERE id = 1",
        back,
    )
    assert pull(jfk)["orders"].held_back == 0
    assert shown(sites["hq"]) == shown(jfk)


def test_line_that_a_user_has_keeps_its_order(sites):
    jfk = coded(sites, "CASCADE")
    run(
        sites["hq"],
        "UPDATE public.lines SET order_id = 0",
        "UPDATE public.orders SET id = 7 WHERE id = 1",
    )
    with jfk.begin() as user:
        user.exec_driver_sql("SELECT FROM public.lines WHERE id = 2 FOR UPDATE")
        assert pull(jfk)["orders"].held_back == 2
        assert run(jfk, "SELECT code FROM public.lines WHERE id = 2") == [("A",)]
    assert pull(jfk)["orders"].held_back == 0
    assert shown(sites["hq"]) == shown(jfk)
