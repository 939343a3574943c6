"""Which rows a refresh looks at, and at which moment."""

from collections import Counter

import pytest

import snapshots
from masters.log.snapshot_log import drop_snapshot_log
from sites import Directory, faults
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.errors import (
    DifferentGroups,
    MassDelete,
    NoSnapshotLog,
    SnapshotLogTooYoung,
    WrongMethod,
)
from tests.fix_sites import log
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")

ALL = "SELECT * FROM public.t ORDER BY 1, 2"


@pytest.fixture
def hq(sites: Directory):
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT i, 'v' FROM generate_series(1, 200) i",
    )
    log(sites["hq"], "t")
    return sites["hq"]


@pytest.fixture
def jfk(sites: Directory, hq):
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    snapshots.refresh(sites["jfk"], "t")
    return sites["jfk"]


def one(site, what="t", **options):
    return snapshots.refresh(site, what, **options).snapshots[0]


def test_writer_open_over_two_refreshes(hq, jfk):
    with hq.begin() as writer, jfk.begin() as user:
        writer.exec_driver_sql("UPDATE public.t SET v = 'late' WHERE id = 1")
        user.exec_driver_sql("UPDATE public.t SET v = 'mine' WHERE id = 2")
        for statement in (
            "UPDATE public.t SET v = 'soon' WHERE id = 3",
            "UPDATE public.t SET v = 'soon' WHERE id = 4",
        ):
            run(hq, statement)
            assert one(jfk).updated == 1
    assert one(jfk).updated == 1
    assert run(jfk, ALL) == run(hq, ALL)
    assert run(hq, "SELECT v FROM public.t WHERE id < 3 ORDER BY id") == [
        ("late",),
        ("mine",),
    ]


def test_truncate_makes_it_complete(hq, jfk):
    run(
        hq,
        "TRUNCATE public.t",
        "INSERT INTO public.t SELECT i FROM generate_series(1, 190) i",
    )
    done = one(jfk, method="f")
    assert (done.method, done.deleted, done.updated) == ("complete", 10, 190)
    assert one(jfk).method == "fast"


def test_mass_delete_asks(hq, jfk):
    run(hq, "DELETE FROM public.t WHERE id <= 100")
    with pytest.raises(MassDelete) as stopped:
        one(jfk)
    assert (stopped.value.deletes, stopped.value.rows) == (100, 200)  # type: ignore[attr-defined]
    assert run(jfk, "SELECT count(*) FROM public.t") == [(200,)]
    assert one(jfk, allow_mass_delete=True).deleted == 100
    assert one(jfk).window_keys == 0


def test_log_made_anew_is_too_young(hq, jfk):
    drop_snapshot_log(hq, "t", force=True)
    run(hq, "UPDATE public.t SET v = 'missed' WHERE id = 1")
    log(hq, "t")
    with pytest.raises(SnapshotLogTooYoung):
        one(jfk, method="F")
    assert one(jfk).method == "complete"
    assert run(jfk, ALL) == run(hq, ALL)
    run(hq, "UPDATE public.t SET v = 'seen' WHERE id = 2")
    assert one(jfk, method="f").updated == 1


@pytest.mark.parametrize("key", ["uuid", "two columns"])
def test_log_made_anew_by_another_key_is_of_no_use(hq, jfk, key):
    """Its keys are not those by which the snapshot knows its rows."""
    columns = {
        "uuid": "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a int, v int",
        "two columns": "a int, v int, b int DEFAULT 7, PRIMARY KEY (a, b)",
    }[key]
    run(
        hq,
        f"CREATE TABLE public.k ({columns})",
        "INSERT INTO public.k (a, v) SELECT i, 0 FROM generate_series(1, 9) i",
    )
    log(hq, "k")
    snapshots.create(jfk, "k", master="hq")
    one(jfk, "k")
    drop_snapshot_log(hq, "k", force=True)
    if key == "uuid":
        log(hq, "k", with_rowid=True)
    else:
        run(hq, "ALTER TABLE k DROP CONSTRAINT k_pkey, ADD PRIMARY KEY (b, a)")
        log(hq, "k")
    for n in range(2):
        run(hq, "UPDATE public.k SET v = v + 1 WHERE a < 5")
        one(jfk, "k")
        every = "SELECT a, v FROM public.k ORDER BY a"
        assert run(jfk, every) == run(hq, every), n
    run(hq, "UPDATE public.k SET v = v + 1 WHERE a < 5")
    with pytest.raises(NoSnapshotLog, match="by its key"):
        one(jfk, "k", method="f")


def test_complete_leaves_equal_rows_alone(hq, jfk):
    before = run(
        jfk, 'SELECT ctid::text FROM public."snap$_t" WHERE id <> 1 ORDER BY id'
    )
    run(hq, "UPDATE public.t SET v = 'x' WHERE id = 1")
    done = one(jfk, method="c")
    assert (done.method, done.updated) == ("complete", 1)
    after = run(
        jfk, 'SELECT ctid::text FROM public."snap$_t" WHERE id <> 1 ORDER BY id'
    )
    assert before == after


def test_methods_by_position(hq, sites, jfk):
    for name in ("a", "b", "c"):
        snapshots.create(jfk, name, master="hq", table="t", group="g")
    snapshots.refresh(jfk, "g")
    report = snapshots.refresh(jfk, "b, a", method="CF")
    assert {s.name: s.method for s in report.snapshots} == {
        "a": "fast",
        "b": "complete",
        "c": "fast",
    }
    with pytest.raises(WrongMethod):
        snapshots.refresh(jfk, "a", method="x")
    with pytest.raises(DifferentGroups):
        snapshots.refresh(jfk, "a,t")
    with pytest.raises(UnknownSnapshot):
        snapshots.refresh(jfk, "nothing")


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (
            "a int, b text, PRIMARY KEY (b, a)",
            "INSERT INTO public.t VALUES (1, 'x'), (1, 'y'), (2, 'a,b\"c\\')",
        ),
        (
            "a text PRIMARY KEY, b text",
            "INSERT INTO public.t VALUES ('it''s %', 'x'), ('', NULL), ('ü\n\t', 'x')",
        ),
        (
            "a numeric PRIMARY KEY, b text",
            "INSERT INTO public.t VALUES (1.0, 'x'), (2.50, NULL), ('NaN', 'x')",
        ),
        (
            "a uuid PRIMARY KEY, b text",
            "INSERT INTO public.t VALUES (gen_random_uuid(), 'x')",
        ),
        (
            "a timestamptz PRIMARY KEY, b json",
            "INSERT INTO public.t VALUES ('infinity', '{}'), (now(), '[1]')",
        ),
    ],
)
def test_keys_of_any_type(sites, key, values):
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE public.t ({key})", values)
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.refresh(jfk, "t")
    everything = "SELECT a::text, b::text FROM public.t ORDER BY 1, 2"
    assert run(jfk, everything) == run(hq, everything)
    run(
        hq, "CREATE TABLE public.kept AS SELECT * FROM public.t", "DELETE FROM public.t"
    )
    snapshots.refresh(jfk, "t")
    assert run(jfk, everything) == []
    run(hq, "INSERT INTO public.t SELECT * FROM public.kept")
    snapshots.refresh(jfk, "t")
    assert run(jfk, everything) == run(hq, everything)
    if "PRIMARY KEY (" not in key:
        run(jfk, "UPDATE public.t SET b = NULL")
    snapshots.refresh(jfk, "t")
    assert run(jfk, everything) == run(hq, everything)
    assert one(jfk).window_keys == 0


def test_equal_keys_that_print_differently(sites):
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id numeric PRIMARY KEY, v text)",
        "INSERT INTO public.t VALUES (1.0, 'x')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    one(jfk)
    run(hq, "UPDATE public.t SET id = 1.00, v = 'y'")
    assert one(jfk).updated == 1
    assert run(jfk, "SELECT v FROM public.t") == [("y",)]


def test_rowid_survives_a_new_key(sites):
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT i, 'v' FROM generate_series(1, 9) i",
    )
    log(hq, "t", with_rowid=True)
    snapshots.create(jfk, "t", master="hq", updatable=True)
    one(jfk)
    run(hq, "UPDATE public.t SET id = id + 100 WHERE id < 3")
    run(hq, "UPDATE public.t SET id = 301 WHERE id = 101")
    run(hq, "UPDATE public.t SET id = 101 WHERE id = 102")
    run(hq, "UPDATE public.t SET id = 102 WHERE id = 301")
    run(hq, "UPDATE public.t SET id = id + 1 WHERE id IN (9)")
    done = one(jfk)
    assert (done.inserted, done.updated, done.deleted) == (0, 3, 0)
    assert run(jfk, ALL) == run(hq, ALL)
    run(jfk, "UPDATE public.t SET id = 77 WHERE id = 5")
    run(jfk, "INSERT INTO public.t (id, v) VALUES (78, 'new')")
    one(jfk)
    assert run(jfk, ALL) == run(hq, ALL)
    assert run(hq, "SELECT count(*) FROM public.t WHERE id IN (77, 78)") == [(2,)]


def test_table_without_a_key(sites):
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int, v text)",
        "INSERT INTO public.t VALUES (1, 'x'), (1, 'x')",
    )
    log(hq, "t", with_rowid=True)
    snapshots.create(jfk, "t", master="hq", updatable=True)
    one(jfk)
    run(hq, "INSERT INTO public.t VALUES (1, 'x')")
    assert one(jfk).inserted == 1
    assert run(jfk, ALL) == run(hq, ALL)


def test_rows_enter_and_leave(hq, sites):
    jfk = sites["jfk"]
    snapshots.create(jfk, "t", master="hq", where="v = 'v'", updatable=True)
    one(jfk)
    run(hq, "UPDATE public.t SET v = 'away' WHERE id < 3")
    assert one(jfk).deleted == 2
    run(hq, "UPDATE public.t SET v = 'v' WHERE id = 1")
    assert one(jfk).inserted == 1
    run(jfk, "UPDATE public.t SET v = 'v' WHERE id = 7")
    run(jfk, "DELETE FROM public.t WHERE id = 8")
    one(jfk)
    mine = "SELECT * FROM public.t WHERE v = 'v' ORDER BY id"
    assert run(jfk, mine) == run(hq, mine)


@pytest.mark.parametrize(
    "place", ["after_window", "after_stage", "before_merge_commit", "after_merge"]
)
def test_failure_anywhere(hq, jfk, place, monkeypatch):
    run(hq, "UPDATE public.t SET v = 'x' WHERE id = 1")
    with monkeypatch.context() as patch:
        patch.setattr(faults, "_hits", Counter())
        patch.setenv("SNAPTIDE_FAULT", f"refresh.{place}:error")
        with pytest.raises(Exception, match=place):
            one(jfk)
    one(jfk)
    assert run(jfk, ALL) == run(hq, ALL)


def test_first_load_that_broke_off(hq, sites, monkeypatch):
    jfk = sites["jfk"]
    snapshots.create(jfk, "t", master="hq", updatable=True)
    for place in ("after_stage", "before_merge_commit"):
        with monkeypatch.context() as patch:
            patch.setattr(faults, "_hits", Counter())
            patch.setenv("SNAPTIDE_FAULT", f"refresh.{place}:error")
            with pytest.raises(Exception, match=place):
                one(jfk)
    run(hq, "DELETE FROM public.t WHERE id = 5")
    assert one(jfk).inserted == 199
    assert run(jfk, ALL) == run(hq, ALL)


def test_a_master_table_made_anew_is_compared_as_a_whole(hq, jfk):
    run(hq, "DROP TABLE public.t", "CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    run(hq, "INSERT INTO public.t VALUES (1, 'new')")
    with pytest.raises(SnapshotLogTooYoung):
        one(jfk, method="f")
    assert one(jfk, allow_mass_delete=True).method == "complete"
    assert run(jfk, ALL) == run(hq, ALL)
