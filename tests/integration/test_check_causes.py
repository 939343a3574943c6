"""Each way in which rows come apart is made, and a check finds and classes the rows."""

from collections import Counter

import pytest

import snapshots
from sites import Directory, Site
from snapshots import CheckReport
from tests.fix_sites import log, unarmed
from tests.fix_worlds import prepared_once
from tests.integration.test_check import on_again
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

#: The table of the master, and of the snapshot.
TABLES = {"hq": "public.t", "jfk": 'public."snap$_t"'}


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT g, 'first' FROM generate_series(1, 9) g",
        "CREATE TABLE public.p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (1) TO (10)",
        "INSERT INTO public.p SELECT g, 'first' FROM generate_series(1, 9) g",
    )
    log(hq, "t", "p")
    for name in ("t", "p"):
        snapshots.create(jfk, name, master="hq", updatable=True)
        refresh(jfk, name)


def told(report: CheckReport) -> dict[tuple[str, str], int]:
    """How many rows differ, by kind and reason."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in report.snapshots:
        for count in one.counts:
            counts[count.kind.value, count.reason.value] += count.rows
    return dict(counts)


def triggers(site: Site, table: str) -> dict[str, str]:
    """The triggers of a table, with the statements that make them."""
    query = (
        "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger"
        f" WHERE tgrelid = '{table}'::regclass AND NOT tgisinternal"
    )
    return dict(run(site, query))


@pytest.mark.parametrize("where", ["hq", "jfk"])
def test_older_rows_that_were_restored(sites: Directory, where: str) -> None:
    """As pg_restore --data-only --disable-triggers brings them."""
    hq, jfk = sites["hq"], sites["jfk"]
    site, table = sites[where], TABLES[where]
    run(site, f"CREATE TABLE public.backup AS SELECT * FROM {table}")
    run(
        hq,
        "UPDATE public.t SET v = 'second' WHERE id <= 3",
        "DELETE FROM public.t WHERE id = 4",
        "INSERT INTO public.t VALUES (10, 'second'), (11, 'second')",
    )
    refresh(jfk, "t")
    assert snapshots.check(jfk).equal
    run(
        site,
        f"ALTER TABLE {table} DISABLE TRIGGER ALL",
        f"DELETE FROM {table}",
        f"INSERT INTO {table} SELECT * FROM public.backup",
        f"ALTER TABLE {table} ENABLE TRIGGER ALL",
    )
    found = told(snapshots.check(jfk))
    only, lost = ("extra", "missing") if where == "jfk" else ("missing", "extra")
    # The last statement has put our triggers into another mode: logs made by these are
    # known to have holes.
    reason = "unexplained" if where == "jfk" else "cannot be told"
    assert found == {("differs", reason): 3, (only, reason): 1, (lost, reason): 2}


@pytest.mark.parametrize("where", ["hq", "jfk"])
def test_a_table_that_was_put_in_the_place_of_the_other(
    sites: Directory, where: str
) -> None:
    site, table, jfk = sites[where], TABLES[where], sites["jfk"]
    name = table.removeprefix("public.")
    run(
        site,
        f"CREATE TABLE public.other (LIKE {table} INCLUDING ALL)",
        f"INSERT INTO public.other SELECT id, v FROM {table} WHERE id <> 9",
        "UPDATE public.other SET v = 'other' WHERE id = 1",
        f"ALTER TABLE {table} RENAME TO before",
        f"ALTER TABLE public.other RENAME TO {name}",
    )
    report = snapshots.check(jfk)
    [one] = [one for one in report.snapshots if one.name == "t"]
    if where == "jfk":
        assert told(report) == {
            ("differs", "unexplained"): 1,
            ("missing", "unexplained"): 1,
        }
        return
    # Nothing has recorded what was written to it: no log knows.
    assert told(report) == {
        ("differs", "cannot be told"): 1,
        ("extra", "cannot be told"): 1,
    }
    assert "do not name all changes" in str(one.unproven)


def test_a_partition_that_was_attached_without_triggers(hq: Site, jfk: Site) -> None:
    unarmed(hq)
    run(
        hq,
        "CREATE TABLE public.p2 (id int PRIMARY KEY, v text)",
        "INSERT INTO public.p2 VALUES (11, 'attached'), (12, 'attached')",
        "ALTER TABLE public.p ATTACH PARTITION public.p2 FOR VALUES FROM (10) TO (20)",
    )
    # Until the refresh, what names the partition itself is recorded nowhere.
    run(hq, "UPDATE public.p2 SET v = 'unseen' WHERE id = 11")
    assert told(snapshots.check(jfk)) == {("missing", "cannot be told"): 2}
    refresh(jfk, "p")
    assert snapshots.check(jfk).equal
    run(
        hq,
        "UPDATE public.p2 SET v = 'seen' WHERE id = 11",
        "UPDATE public.p SET v = 'seen' WHERE id = 12",
    )
    assert told(snapshots.check(jfk)) == {("differs", "in flight"): 2}


@pytest.mark.parametrize("where", ["hq", "jfk"])
def test_triggers_that_were_dropped_and_made_again(
    sites: Directory, where: str
) -> None:
    site, table, jfk = sites[where], TABLES[where], sites["jfk"]
    made = triggers(site, table)
    run(site, *(f'DROP TRIGGER "{name}" ON {table}' for name in made))
    changed = ("UPDATE public.t SET v = 'hole' WHERE id = 1",)
    run(site, *changed, "DELETE FROM public.t WHERE id = 2")
    gone = ("extra" if where == "hq" else "missing", "unexplained")
    hole = {("differs", "unexplained"): 1, gone: 1}
    found = told(snapshots.check(jfk))
    # As long as they are missing, the master's log is known to have a hole.
    assert found == (
        {(kind, "cannot be told"): 1 for kind, _ in hole} if where == "hq" else hole
    )
    run(
        site,
        *made.values(),
        *(on_again(table, name) for name in made),
    )
    assert told(snapshots.check(jfk)) == hole
    run(site, "UPDATE public.t SET v = 'seen' WHERE id = 3")
    reason = "in flight" if where == "hq" else "pending"
    found = told(snapshots.check(jfk))
    assert found.pop(("differs", reason)) == 1
    assert found == hole
