"""Rows that come with ATTACH and go with DETACH and DROP fire no trigger."""

import pytest

import snapshots
from sites import Directory
from snapshots.errors import SnapshotLogTooYoung
from tests.fix_sites import log
from tests.linked_table import run, scalar
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")


def test_partitions_come_and_go(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int, v text, PRIMARY KEY (id))"
        " PARTITION BY RANGE (id)",
        "CREATE TABLE public.t0 PARTITION OF public.t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE public.t1 PARTITION OF public.t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO public.t SELECT n, 'old' FROM generate_series(0, 19) n",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", where="id <> 21")
    refresh(jfk, "t")

    run(
        hq,
        "CREATE TABLE public.t2 (v text, id int PRIMARY KEY)",
        "INSERT INTO public.t2 SELECT 'came', n FROM generate_series(20, 24) n",
        "ALTER TABLE public.t ATTACH PARTITION public.t2 FOR VALUES FROM (20) TO (30)",
    )
    came = refresh(jfk, "t")["t"]
    assert (came.method, came.window_keys, came.inserted) == ("fast", 5, 4)
    assert refresh(jfk, "t")["t"].window_keys == 0

    run(hq, "ALTER TABLE public.t DETACH PARTITION public.t0")
    with pytest.raises(SnapshotLogTooYoung):
        refresh(jfk, "t", method="f")
    went = refresh(jfk, "t", allow_mass_delete=True)["t"]
    assert (went.method, went.deleted) == ("complete", 10)
    assert refresh(jfk, "t")["t"].method == "fast"

    # While it is away, rows of it change; its triggers have stayed with it.
    run(
        hq,
        "UPDATE public.t0 SET v = 'meanwhile' WHERE id = 1",
        "ALTER TABLE public.t ATTACH PARTITION public.t0 FOR VALUES FROM (0) TO (10)",
        "DROP TABLE public.t1",
        "CREATE TABLE public.t1 PARTITION OF public.t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO public.t VALUES (15, 'new')",
    )
    assert refresh(jfk, "t", allow_mass_delete=True)["t"].method == "complete"
    assert scalar(jfk, "SELECT count(*) FROM t") == 15

    run(
        hq,
        "ALTER TABLE public.t DETACH PARTITION public.t0",
        "UPDATE public.t0 SET v = 'away' WHERE id = 2",
        "ALTER TABLE public.t ATTACH PARTITION public.t0 FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE public.t3 PARTITION OF public.t DEFAULT",
        "INSERT INTO public.t3 VALUES (99, 'straight into it')",
    )
    # It is the same one, but was away.
    same = refresh(jfk, "t")["t"]
    assert (same.method, same.inserted, same.updated) == ("complete", 1, 1)
    assert_equal_to_master(jfk)


def test_children_come_and_go(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t VALUES (1, 'own')",
        "CREATE TABLE public.child (id int PRIMARY KEY, v text, more int)",
        "INSERT INTO public.child VALUES (2, 'came')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")

    run(hq, "ALTER TABLE public.child INHERIT public.t")
    came = refresh(jfk, "t")["t"]
    assert (came.method, came.inserted) == ("fast", 1)
    run(hq, "ALTER TABLE public.child NO INHERIT public.t")
    assert refresh(jfk, "t")["t"].deleted == 1
    assert_equal_to_master(jfk)


def test_partition_without_rows_between_others(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        *(
            f"CREATE TABLE public.t{n} PARTITION OF public.t"
            f" FOR VALUES FROM ({n}0) TO ({n + 1}0)"
            for n in range(4)
        ),
        "INSERT INTO public.t SELECT n, 'old' FROM generate_series(0, 9) n",
        "INSERT INTO public.t SELECT n, 'old' FROM generate_series(30, 39) n",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    run(hq, "UPDATE public.t SET v = 'new' WHERE id IN (1, 31)")
    done = refresh(jfk, "t", method="c")["t"]
    assert (done.inserted, done.updated, done.deleted) == (0, 2, 0)
    assert_equal_to_master(jfk)
