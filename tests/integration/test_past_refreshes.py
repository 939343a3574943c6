"""What a site keeps of its last refreshes: outcome, steps and rows of each."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

import deferred
import masters
import snapshots
from sites import Directory
from sites.errors import SnaptideError
from snapshots import MassDelete, PastRefresh, UnknownSnapshot
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run, scalar
from tests.stories import refresh, user

pytestmark = pytest.mark.usefixtures("spark")

COUNTS = ("inserted", "updated", "deleted", "held_back")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """A group of an updatable and a read-only snapshot, filled."""
    hq, jfk = sites["hq"], sites["jfk"]
    for table in ("a", "b"):
        run(
            hq,
            f"CREATE TABLE public.{table} (id int PRIMARY KEY, v text)",
            f"INSERT INTO public.{table} SELECT g, 'one' FROM generate_series(1, 3) g",
        )
        log(hq, table)
        snapshots.create(
            jfk, table, master="hq", group="airport", updatable=table == "a"
        )
    refresh(jfk, "airport")


def last(sites: Directory) -> PastRefresh:
    return snapshots.list_refreshes(sites["jfk"], "airport", limit=1)[0]


def counts(one: PastRefresh) -> tuple[int, ...]:
    return tuple(getattr(one, name) for name in COUNTS)


def test_each_refresh_is_noted_with_its_steps(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    [first] = snapshots.list_refreshes(jfk, "airport")
    assert (first.outcome, first.methods, counts(first)) == (
        "refreshed",
        ("load",),
        (6, 0, 0, 0),
    )
    assert first.previous_at is None
    assert {"ask", "window", "load", "merge"} <= first.steps.keys()
    assert "push" not in first.steps

    run(hq, "UPDATE a SET v = 'two' WHERE id = 1", "DELETE FROM b WHERE id = 1")
    run(hq, "INSERT INTO a VALUES (9, 'nine')")
    run(jfk, "INSERT INTO a VALUES (7, 'seven')")
    snapshots.refresh(jfk, "airport", allow_mass_delete=True)
    second = last(sites)
    assert (second.outcome, second.methods, counts(second)) == (
        "refreshed",
        ("fast",),
        (1, 1, 1, 0),
    )
    assert second.previous_at == first.ended_at < second.ended_at == second.first_at
    assert next(iter(second.steps)) == "push"
    assert sum(second.steps.values()) == pytest.approx(second.seconds)
    noted = "SELECT refreshed_at FROM snaptide.refresh_group"
    assert scalar(jfk, noted) == second.ended_at


def test_refreshes_that_find_nothing_new_share_a_row(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    first, ends = last(sites), []
    for _ in range(4):
        refresh(jfk, "airport")
        ends.append(last(sites).ended_at)
    one = last(sites)
    assert len(snapshots.list_refreshes(jfk, "airport")) == 2
    assert (one.outcome, one.refreshes, counts(one)) == ("nothing new", 4, (0,) * 4)
    assert (one.previous_at, one.first_at) == (first.ended_at, ends[0])
    assert one.longest == max(b - a for a, b in pairwise(ends))
    assert {*one.steps} == {"ask"}
    run(hq, "UPDATE a SET v = 'two'")
    refresh(jfk, "airport")
    refresh(jfk, "airport")
    found = [(o.outcome, o.refreshes) for o in snapshots.list_refreshes(jfk, "airport")]
    assert found[:3] == [("nothing new", 1), ("refreshed", 1), ("nothing new", 4)]
    assert last(sites).longest is None


def test_one_that_fails_is_noted_with_its_error(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    before = last(sites)
    run(hq, "DELETE FROM a")
    with pytest.raises(MassDelete) as raised:
        refresh(jfk, "airport", mass_delete_share=0.01)
    failed = last(sites)
    assert (failed.outcome, failed.methods, counts(failed)) == ("failed", (), (0,) * 4)
    assert failed.error == f"{raised.value.code} {raised.value.message}"
    assert [*failed.steps][-1] == "merge"
    assert failed.previous_at == before.ended_at
    with pytest.raises(MassDelete):
        refresh(jfk, "airport", mass_delete_share=0.01)
    again = last(sites)
    assert (again.refreshes, again.first_at, again.previous_at) == (
        2,
        failed.ended_at,
        before.ended_at,
    )
    assert again.ended_at - failed.ended_at == again.longest

    run(jfk, "INSERT INTO a VALUES (7, 'seven')")
    here = jfk.url.set(port=1, host="127.0.0.1")
    away = Directory({"jfk": jfk.url, "hq": here})
    with away as some, pytest.raises(SnaptideError):
        snapshots.refresh(some["jfk"], "airport")
    assert {*last(sites).steps} == {"push"}
    deferred.push(jfk)
    assert len(snapshots.list_refreshes(jfk, "airport")) == 3
    masters.drop_snapshot_log(hq, "b", force=True)
    with pytest.raises(SnaptideError):
        refresh(jfk, "airport", method="ff")
    refresh(jfk, "airport", allow_mass_delete=True)
    again = last(sites)
    assert again.previous_at == before.ended_at
    assert (again.methods, counts(again)) == (("complete", "fast"), (0, 0, 3, 0))


def test_rows_that_are_held_back_are_noted_by_what_holds_them(
    sites: Directory,
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "UPDATE a SET v = 'mine' WHERE id = 2")
    run(
        jfk,
        "ALTER TABLE public.\"snap$_b\" ADD CONSTRAINT short CHECK (v <> 'long')",
    )
    run(hq, "UPDATE a SET v = 'two'", "UPDATE b SET v = 'long' WHERE id = 3")
    with user(jfk) as session:
        session.execute("SELECT FROM public.a WHERE id = 3 FOR UPDATE")
        refresh(jfk, "airport")
    held = "SELECT held_back FROM snaptide.refresh_group"
    assert scalar(jfk, held) == {"locked": 1, "pending": 1, "refused": 1}
    one = last(sites)
    assert (one.outcome, counts(one)) == ("refreshed", (0, 1, 0, 3))
    assert one.error is not None
    assert "short" in one.error
    run(jfk, 'ALTER TABLE public."snap$_b" DROP CONSTRAINT short')
    snapshots.refresh(jfk, "airport")
    refresh(jfk, "airport")
    assert scalar(jfk, held) == {}


def test_a_site_keeps_a_hundred_of_a_group(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        jfk,
        "INSERT INTO snaptide.refresh_group (name, master, master_id)"
        " SELECT 'other', master, master_id FROM snaptide.refresh_group",
        "INSERT INTO snaptide.refresh_run"
        " (refresh_group, outcome, first_at, ended_at, seconds, steps)"
        " SELECT name, 'failed', now(), now(), 1, '{}'"
        " FROM snaptide.refresh_group, generate_series(1, 120)",
    )
    kept = (
        "SELECT refresh_group, count(*)::int FROM snaptide.refresh_run"
        " GROUP BY refresh_group ORDER BY refresh_group"
    )
    for number in range(2):
        refresh(jfk, "airport")
        assert run(jfk, kept) == [("airport", 100), ("other", 120)]
        run(hq, f"UPDATE a SET v = 'again {number}'")
        refresh(jfk, "airport")
        assert run(jfk, kept) == [("airport", 100), ("other", 120)]
        assert last(sites).outcome == "refreshed"


def test_a_dropped_group_leaves_nothing(sites: Directory) -> None:
    jfk = sites["jfk"]
    for name in ("a", "b"):
        snapshots.drop(jfk, name)
    for table in ("refresh_run", "refresh_step"):
        assert scalar(jfk, f"SELECT count(*) FROM snaptide.{table}") == 0
    with pytest.raises(UnknownSnapshot):
        snapshots.list_refreshes(jfk, "airport")


def test_steps_of_refreshes_that_moved_the_group_are_counted(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    merges = "SELECT sum(refreshes) FROM snaptide.refresh_step WHERE step = 'merge'"
    assert scalar(jfk, merges) == 1
    refresh(jfk, "airport")
    run(hq, "DELETE FROM a")
    with pytest.raises(MassDelete):
        refresh(jfk, "airport", mass_delete_share=0.01)
    assert scalar(jfk, merges) == 1
    refresh(jfk, "airport", allow_mass_delete=True)
    assert scalar(jfk, merges) == 2
    assert last(sites).ended_at - last(sites).first_at == timedelta()
