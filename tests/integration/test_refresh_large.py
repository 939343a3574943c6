"""Refreshes that executors compare and stage, made small enough for a test."""

import secrets
import sys
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text

import snapshots
from sites import Directory, Site
from snapshots.differences import buckets, comparison, difference, large
from snapshots.errors import StageLost
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")

ALL = "SELECT * FROM public.t ORDER BY a, b"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(comparison, "SMALL_WINDOW", 10)
    monkeypatch.setattr(large, "PART", 40)


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (a int, b text, n numeric, f float8, d date,"
        " s varchar(20), y bytea, i int[], PRIMARY KEY (b, a))",
        "INSERT INTO public.t SELECT i, 'it''s ' || i % 7, i / 3.0, i / 3.0,"
        " CASE WHEN i % 5 = 0 THEN 'infinity' ELSE date '2013-01-01' + i END,"
        " NULLIF(i % 3, 0), decode(lpad(to_hex(i), 4, '0'), 'hex'),"
        " ARRAY[[i, NULL], [1, 2]] FROM generate_series(1, 300) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", where="a <> 77", updatable=True)
    snapshots.refresh(jfk, "t")


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
    assert run(jfk, same) == run(hq, same)
    left = "SELECT relname FROM pg_class WHERE relname ~ '^(stage|keys)[$]'"
    assert run(jfk, left) == []


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
    monkeypatch.setattr(sys.modules["snapshots.refreshing.refresh"], "ATTEMPTS", 1)
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
    assert run(jfk, everything) == run(hq, everything)
    wide = "SELECT count(*) FROM pg_class WHERE relname LIKE 'wide$%'"
    assert run(jfk, wide) == [(0,)]


def test_all_rows_that_are_equal_stay_where_they_are(hq, jfk, monkeypatch):
    monkeypatch.setattr(difference, "session", lambda: pytest.fail("a Spark job"))
    done = snapshots.refresh(jfk, "t", method="c").snapshots[0]
    assert (done.inserted, done.updated, done.deleted) == (0, 0, 0)
    assert (done.method, done.window_keys) == ("complete", None)


@pytest.mark.parametrize("count", [1, buckets.BUCKETS])
@pytest.mark.parametrize("most", [10, 1000])
def test_rows_that_swap_values_are_found(hq, jfk, monkeypatch, count, most):
    """Also by sums that all rows share, and whoever compares what differs."""
    monkeypatch.setattr(buckets, "BUCKETS", count)
    monkeypatch.setattr(buckets, "MOST_BUCKETS", count)
    monkeypatch.setattr(comparison, "small_windows", lambda *_: [None])
    monkeypatch.setattr(comparison, "most_rows", lambda *_: most)
    run(hq, "UPDATE public.t SET a = -a WHERE a IN (5, 12)")
    run(
        hq,
        "UPDATE public.t SET n = 301 / 3.0 - n, f = (301 - a) / 3.0 WHERE a > 100",
        "UPDATE public.t SET y = NULL, s = '' WHERE s IS NULL",
        "UPDATE public.t SET n = n + 0.00 WHERE a = 90",
    )
    done = snapshots.refresh(jfk, "t", method="c").snapshots[0]
    assert (done.inserted, done.deleted) == (2, 2)
    everything = "SELECT t::text FROM public.t WHERE a <> 77 ORDER BY a, b"
    assert run(jfk, everything) == run(hq, everything)


@pytest.mark.parametrize("most", [2, 1000])
def test_rows_are_read_of_the_buckets_that_were_summed_up(hq, jfk, monkeypatch, most):
    """A table of this many rows has 64 of them."""
    monkeypatch.setattr(buckets, "BUCKETS", 4)
    monkeypatch.setattr(buckets, "MOST_BUCKETS", 64)
    monkeypatch.setattr(comparison, "small_windows", lambda *_: [None])
    monkeypatch.setattr(comparison, "most_rows", lambda *_: most)
    run(hq, "ANALYZE public.t")
    run(hq, "UPDATE public.t SET n = n + 1 WHERE a IN (5, 12, 90)")
    assert snapshots.refresh(jfk, "t", method="c").snapshots[0].updated == 3
    assert run(jfk, ALL) == run(hq, ALL.replace("t ORDER", "t WHERE a <> 77 ORDER"))


def test_rows_that_all_differ_are_not_summed_up(hq, jfk, monkeypatch):
    monkeypatch.setattr(buckets, "differing", lambda *_: pytest.fail("all rows"))
    run(hq, "UPDATE public.t SET n = n + 1")
    done = snapshots.refresh(jfk, "t", method="c").snapshots[0]
    assert done.updated == 299
    assert run(jfk, ALL) == run(hq, ALL.replace("t ORDER", "t WHERE a <> 77 ORDER"))


@pytest.fixture
def latin(server: PostgresServer, jfk: Site) -> Iterator[Directory]:
    """A master whose texts are other bytes than those of its site."""
    name = f"latin_{secrets.token_hex(4)}"
    statement = sql.SQL(
        "CREATE DATABASE {} ENCODING 'LATIN1' LOCALE 'C' LOCALE_PROVIDER libc"
        " TEMPLATE template0"
    )
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name)))
    made = Directory({"latin": server.url(name), "jfk": jfk.url})
    migrate.upgrade(made["latin"])
    yield made
    made.close()
    server.drop_database(name)


def test_other_texts_of_the_same_bytes_are_found(latin: Directory) -> None:
    there, here = latin["latin"], latin["jfk"]
    run(
        there,
        "CREATE TABLE public.l (id int PRIMARY KEY, v text)",
        "INSERT INTO public.l SELECT i, U&'\\00C3\\00A9' FROM generate_series(1, 30) i",
    )
    log(there, "l")
    snapshots.create(here, "l", master="latin", updatable=True)
    snapshots.refresh(here, "l")
    run(
        here,
        "SET LOCAL snaptide.origin = 'latin'",
        "SELECT set_config('snaptide.writing',"
        " 'public.\"snap$_l\"'::regclass::oid::text, true)",
        "UPDATE public.l SET v = U&'\\00E9' WHERE id = 7",
    )
    assert snapshots.refresh(here, "l", method="c").snapshots[0].updated == 1
    assert run(here, "SELECT DISTINCT v FROM public.l") == [("\u00c3\u00a9",)]
