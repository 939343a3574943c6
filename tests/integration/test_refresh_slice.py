"""One table, one site: create, load, change at the master, refresh."""

import pytest

import masters
from sites import Directory
from snapshots.creating.create import create
from snapshots.refreshing.refresh import refresh
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")


def test_slice(sites: Directory):
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, o text, v numeric(10,2))",
        "INSERT INTO public.t SELECT i, 'o' || i % 2, i FROM generate_series(1, 100) i",
    )
    masters.create_snapshot_log(hq, "t")
    create(jfk, "t", master="hq", where="o = 'o1'", updatable=True)
    first = refresh(jfk, "t", push_deferred_rpc=False)
    assert first.snapshots[0].method == "load"
    assert run(jfk, "SELECT count(*) FROM public.t") == [(50,)]
    run(
        hq,
        "DELETE FROM public.t WHERE id = 1",
        "UPDATE public.t SET v = 7 WHERE id = 3",
        "UPDATE public.t SET o = 'o1' WHERE id = 4",
        "UPDATE public.t SET o = 'o0' WHERE id = 5",
        "INSERT INTO public.t VALUES (101, 'o1', NULL), (102, 'o2', NULL)",
    )
    second = refresh(jfk, "t", push_deferred_rpc=False)
    report = second.snapshots[0]
    assert (report.inserted, report.updated, report.deleted) == (2, 1, 2)
    query = "SELECT * FROM public.t WHERE o = 'o1' ORDER BY id"
    assert run(jfk, query) == run(hq, query)
    assert refresh(jfk, "t", push_deferred_rpc=False).snapshots[0].window_keys == 0
