"""Refreshes that executors compare and stage, made small enough for a test."""

import sys

import pytest
from sqlalchemy import text

import snapshots
from sites import Directory
from snapshots import comparison, large
from snapshots.errors import StageLost
from tests.fix_sites import log, rows, run

pytestmark = pytest.mark.usefixtures("spark")

ALL = "SELECT * FROM public.t ORDER BY a, b"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(comparison, "SMALL_WINDOW", 10)
    monkeypatch.setattr(large, "PART", 40)


@pytest.fixture
def hq(sites: Directory):
    run(
        sites["hq"],
        "CREATE TABLE public.t (a int, b text, n numeric, f float8, d date,"
        " s varchar(20), y bytea, i int[], PRIMARY KEY (b, a))",
        "INSERT INTO public.t SELECT i, 'it''s ' || i % 7, i / 3.0, i / 3.0,"
        " CASE WHEN i % 5 = 0 THEN 'infinity' ELSE date '2013-01-01' + i END,"
        " NULLIF(i % 3, 0), decode(lpad(to_hex(i), 4, '0'), 'hex'),"
        " ARRAY[[i, NULL], [1, 2]] FROM generate_series(1, 300) i",
    )
    log(sites["hq"], "t")
    return sites["hq"]


@pytest.fixture
def jfk(sites: Directory, hq):
    snapshots.create(sites["jfk"], "t", master="hq", where="a <> 77", updatable=True)
    snapshots.refresh(sites["jfk"], "t")
    return sites["jfk"]


def change(hq, jfk):
    run(jfk, "UPDATE public.t SET n = 1.50 WHERE a = 1")
    run(jfk, "DELETE FROM public.t WHERE a = 2")
    run(jfk, "INSERT INTO public.t (a, b) VALUES (1000, 'mine')")
    run(
        hq,
        "UPDATE public.t SET n = n + 1, s = NULL WHERE a BETWEEN 1 AND 120",
        "DELETE FROM public.t WHERE a BETWEEN 121 AND 150",
        "INSERT INTO public.t SELECT i, 'new' FROM generate_series(301, 350) i",
    )


@pytest.mark.parametrize("method", ["f", "c"])
def test_large(hq, jfk, method):
    change(hq, jfk)
    report = snapshots.refresh(jfk, "t", push_deferred_rpc=False, method=method)
    done = report.snapshots[0]
    # 77 is none of ours; 1 and 2 are pending, as is what was inserted.
    assert (done.inserted, done.updated, done.deleted) == (50, 117, 30)
    assert done.held_back == 3
    assert (done.window_keys is None) == (method == "c")
    report = snapshots.refresh(jfk, "t")
    snapshots.refresh(jfk, "t")
    same = "SELECT * FROM public.t WHERE a > 2 AND a <> 77 ORDER BY a, b"
    assert rows(jfk, same) == rows(hq, same)
    left = "SELECT relname FROM pg_class WHERE relname ~ '^(stage|keys)[$]'"
    assert rows(jfk, left) == []
    assert rows(jfk, "SELECT * FROM snaptide.stage_attempt") == []


def test_stage_that_was_lost(hq, jfk, monkeypatch):
    change(hq, jfk)
    compare = large.compare
    losses: list[object] = []

    def lose(*args):
        found = compare(*args)
        if not losses:
            losses.append(found)
            with jfk.begin() as connection:
                connection.execute(text('TRUNCATE snaptide."stage$_t"'))
        return found

    monkeypatch.setattr(large, "compare", lose)
    done = snapshots.refresh(jfk, "t", push_deferred_rpc=False).snapshots[0]
    assert (done.inserted, done.updated, done.deleted) == (50, 117, 30)
    losses.clear()
    run(hq, "UPDATE public.t SET s = 'x' WHERE a > 200")
    monkeypatch.setattr(sys.modules["snapshots.refresh"], "ATTEMPTS", 1)
    with pytest.raises(StageLost):
        snapshots.refresh(jfk, "t", push_deferred_rpc=False)


def test_rows_that_fill_a_page_as_text(sites: Directory):
    """A page holds 450 numbers of 8 bytes each, and not their texts of 20."""
    hq, jfk = sites["hq"], sites["jfk"]
    columns = [f"c{n}" for n in range(450)]
    typed = ", ".join(f"{column} numeric" for column in columns)
    values = ", ".join(f"{number}.0000000000123456 + i" for number in range(450))
    run(
        hq,
        f"CREATE TABLE public.w (id int PRIMARY KEY, {typed})",
        f"INSERT INTO public.w SELECT i, {values} FROM generate_series(1, 3) i",
    )
    log(hq, "w")
    snapshots.create(jfk, "w", master="hq")
    snapshots.refresh(jfk, "w")
    run(hq, f"INSERT INTO public.w SELECT i, {values} FROM generate_series(4, 30) i")
    done = snapshots.refresh(jfk, "w").snapshots[0]
    assert done.inserted == 27
    everything = "SELECT * FROM public.w ORDER BY id"
    assert rows(jfk, everything) == rows(hq, everything)
    wide = "SELECT count(*) FROM pg_class WHERE relname LIKE 'wide$%'"
    assert rows(jfk, wide) == [(0,)]
