"""A refresh dies of kill -9; the next one comes to the same end as without."""

import pytest

import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.processes import kill
from tests.stories import assert_equal_to_master, refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")

#: What a victim runs. It is killed by a fault point, or, in a first load, as soon
#: as rows have arrived.
VICTIM = """
import signal
import snapshots

def dies(done, total, unit):
    if done:
        os.kill(os.getpid(), signal.SIGKILL)

first_load = "SNAPTIDE_FAULT" not in os.environ
snapshots.refresh(sites["jfk"], "g", progress=dies if first_load else None)
"""


def _tables(hq: Site) -> None:
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, v text, u int UNIQUE)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p, v text)",
        "INSERT INTO public.p SELECT i, 'hq', i FROM generate_series(1, 20) i",
        "INSERT INTO public.c SELECT i, i, 'hq' FROM generate_series(1, 10) i",
    )
    log(hq, "p", "c")


@prepared_once("hq", "jfk")
def group(sites: Directory) -> None:
    """Two updatable snapshots at jfk, loaded, and changes at both sides."""
    hq, jfk = sites["hq"], sites["jfk"]
    _tables(hq)
    for name in ("p", "c"):
        snapshots.create(jfk, name, master="hq", group="g", updatable=True)
    refresh(jfk, "g")
    run(
        hq,
        "UPDATE public.p SET v = 'theirs', u = NULL WHERE id = 1",
        "UPDATE public.p SET u = 1 WHERE id = 2",
        "UPDATE public.p SET u = 2 WHERE id = 1",
        "DELETE FROM public.c WHERE id = 3",
        "DELETE FROM public.p WHERE id = 3",
        "INSERT INTO public.p VALUES (30, 'theirs', 30)",
        "INSERT INTO public.c VALUES (30, 30, 'theirs')",
    )
    run(
        jfk,
        "UPDATE public.p SET v = 'mine' WHERE id = 5",
        "DELETE FROM public.c WHERE id = 6",
        "INSERT INTO public.c VALUES (40, 5, 'mine')",
    )


WANTED = (
    [(30, 30, "theirs"), (40, 5, "mine")],
    [(1, "theirs", 2), (2, "hq", 1), (5, "mine", 5), (30, "theirs", 30)],
)


def assert_end_state(sites: Directory) -> None:
    for site in sites.values():
        children = "SELECT * FROM public.c WHERE id IN (3, 6) OR id > 10 ORDER BY id"
        parents = "SELECT * FROM public.p WHERE id IN (1, 2, 3, 5, 30) ORDER BY id"
        assert (run(site, children), run(site, parents)) == WANTED
    assert_equal_to_master(sites["jfk"])


def test_without_a_kill(group: Directory) -> None:
    settle(group["jfk"])
    assert_end_state(group)


@pytest.mark.parametrize(
    "point",
    [
        "refresh.after_window",
        "refresh.after_stage",
        "refresh.before_merge_commit",
        "refresh.after_merge",
    ],
)
def test_killed_at(group: Directory, point: str) -> None:
    hq, jfk = group["hq"], group["jfk"]
    kill(VICTIM, group, fault=f"{point}:kill", borrows_spark=True)
    # A killed refresh shows all of its moment or nothing.
    shown = len(run(jfk, "SELECT 1 FROM public.p WHERE v = 'theirs'"))
    assert shown == (2 if point == "refresh.after_merge" else 0)
    run(jfk, "UPDATE public.p SET v = 'later' WHERE id = 7")
    run(hq, "UPDATE public.p SET v = 'later' WHERE id = 8")
    settle(jfk)
    assert_end_state(group)
    found = run(jfk, "SELECT id FROM public.p WHERE v = 'later' ORDER BY id")
    assert found == [(7,), (8,)]


def test_killed_in_the_first_load(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    _tables(hq)
    run(
        hq,
        "INSERT INTO public.p SELECT i, repeat('x', 200), i"
        " FROM generate_series(100, 200000) i",
    )
    for name in ("p", "c"):
        snapshots.create(jfk, name, master="hq", group="g", updatable=True)
    kill(VICTIM, sites)
    # Nothing that users could see, before or after a change at the master.
    assert run(jfk, "SELECT to_regclass('public.p'), to_regclass('public.c')") == [
        (None, None)
    ]
    run(hq, "DELETE FROM public.c WHERE id = 3", "DELETE FROM public.p WHERE id > 1000")
    report = refresh(jfk, "g")
    assert [report[name].method for name in ("p", "c")] == ["load", "load"]
    assert run(jfk, "SELECT 1 FROM snaptide.load_range") == []
    with user(jfk) as session:
        session.execute("INSERT INTO public.c VALUES (50, 999, 'mine')")
        session.commit()
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT v FROM public.c WHERE id = 50") == [("mine",)]
