"""A gentle check finds the same as any other, in short statements.

Any check tells how many pages it has read.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import deferred
import snapshots
from deferred.parked import parked_rows
from deferred.parked.parked_rows import ParkedRow
from sites import Directory, Site
from snapshots import keys
from snapshots.check import gently, reader, tally
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

ROWS = "SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, note text)",
        f"INSERT INTO public.t {ROWS}",
        "CREATE TABLE public.p (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (9000)",
        "CREATE TABLE public.p2 PARTITION OF public.p DEFAULT",
        "CREATE TABLE public.p3 PARTITION OF public.p FOR VALUES FROM (-9) TO (-1)",
        f"INSERT INTO public.p {ROWS}",
        "CREATE TABLE public.empty (id int PRIMARY KEY)",
    )
    log(sites["hq"], "t", "p", "empty")
    for name in ("t", "p", "empty"):
        snapshots.create(sites["jfk"], name, master="hq", group="g", updatable=True)
    refresh(sites["jfk"], "g")


@pytest.fixture(autouse=True)
def _short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gently, "LONGEST_REST", 0.001)


def same(jfk: Site, **options: Any) -> int:
    """Check both ways; returns how many rows differ without a reason."""
    plain = snapshots.check(jfk, **options)
    gentle = snapshots.check(jfk, gently=True, **options)
    for one, other in zip(plain.snapshots, gentle.snapshots, strict=True):
        assert (one.name, one.counts) == (other.name, other.counts)
        assert (one.rows_master, one.rows_here) == (other.rows_master, other.rows_here)
        assert Counter(map(repr, one.differences)) == Counter(
            map(repr, other.differences)
        )
    return gentle.unexplained


def spoil(jfk: Site) -> None:
    for table in ("t", "p"):
        as_refresh(
            jfk,
            f'DELETE FROM public."snap$_{table}" WHERE id IN (1, 20000)',
            f"UPDATE public.\"snap$_{table}\" SET note = 'y' WHERE id % 5000 = 7",
            f'INSERT INTO public."snap$_{table}" VALUES (0, NULL), (99999, NULL)',
        )
    run(jfk, "UPDATE public.t SET note = 'mine' WHERE id BETWEEN 10 AND 20")


def test_it_finds_the_same(jfk: Site) -> None:
    assert same(jfk) == 0
    spoil(jfk)
    assert same(jfk) == 16
    assert same(jfk, where="id < 100") == 6


def test_steps_that_take_too_long_are_divided(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bool] = []
    once = gently._bounded

    def counted(*given: Any) -> object:
        found = once(*given)
        read.append(found is None)
        return found

    monkeypatch.setattr(gently, "_bounded", counted)
    monkeypatch.setattr(gently, "LONGEST_STATEMENT", 0.002)
    spoil(jfk)
    assert same(jfk) == 16
    assert 0 < read.count(True) < len(read)


def test_rows_of_many_buckets_are_compared_in_rounds(
    jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_refresh(jfk, "UPDATE public.\"snap$_t\" SET note = 'y' WHERE id <= 1000")
    plain = snapshots.check(jfk, "t")
    monkeypatch.setattr("snapshots.differences.comparison.SMALL_WINDOW", 300)
    monkeypatch.setattr("snapshots.differences.comparison.ALWAYS_FEW", 1)
    gentle = snapshots.check(jfk, "t", gently=True)
    assert gentle.unexplained == plain.unexplained == 1000


@pytest.fixture
def asked_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many keys each statement names the rows."""
    found: list[int] = []

    def noted(send: Callable[..., Any]) -> Callable[..., Any]:
        def send_noted(wanted: Any, kinds: Any) -> Any:
            found.append(wanted.num_rows)
            return send(wanted, kinds)

        return send_noted

    for name in ("numbered", "as_rows"):
        monkeypatch.setattr(keys, name, noted(getattr(keys, name)))
    return found


def spoil_many(hq: Site, jfk: Site) -> None:
    """Have 500 rows differ, of which a fifth is parked, and a fifth pending."""
    run(hq, "UPDATE public.t SET note = 'hq' WHERE id <= 100")
    run(jfk, "UPDATE public.t SET note = 'jfk' WHERE id <= 100")
    assert deferred.push(jfk).errors == 1
    run(jfk, "UPDATE public.t SET note = 'later' WHERE id BETWEEN 101 AND 200")
    as_refresh(jfk, 'DELETE FROM public."snap$_t" WHERE id BETWEEN 201 AND 500')


def test_a_few_rows_are_explained_and_shown_at_a_time(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch, asked_together: list[int]
) -> None:
    spoil_many(hq, jfk)
    plain = snapshots.check(jfk, "t")
    assert max(asked_together) == 500
    asked_together.clear()
    monkeypatch.setattr(gently, "FEWEST_KEYS", 70)
    monkeypatch.setattr(gently, "STEP", 0)
    gentle = snapshots.check(jfk, "t", gently=True)
    assert max(asked_together) == 70
    assert [one.counts for one in gentle.snapshots] == [
        one.counts for one in plain.snapshots
    ]
    assert sorted(map(repr, gentle.snapshots[0].differences)) == sorted(
        map(repr, plain.snapshots[0].differences)
    )
    reasons = {count.reason.value: count.rows for count in gentle.snapshots[0].counts}
    assert reasons == {"parked": 100, "pending": 100, "unexplained": 300}

    asked_together.clear()
    some = snapshots.check(jfk, "t", where="id > 1", gently=True)
    assert some.unexplained == 300
    assert max(asked_together) == 70


def test_no_other_rows_of_the_error_queue_are_read(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_many(hq, jfk)
    read: list[ParkedRow] = []
    of_table = parked_rows.of_table

    def noted(*given: Any, **options: Any) -> list[ParkedRow]:
        read.extend(of_table(*given, **options))
        return read

    monkeypatch.setattr(parked_rows, "of_table", noted)
    [one] = snapshots.check(jfk, "t", where="id BETWEEN 51 AND 60").snapshots
    assert [row.detail for row in one.differences] == ["error 1"] * 10
    assert sorted(row.key for row in read) == [(str(n),) for n in range(51, 61)]


def test_more_rows_are_asked_about_while_that_is_quick(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch, asked_together: list[int]
) -> None:
    spoil_many(hq, jfk)
    monkeypatch.setattr(gently, "FEWEST_KEYS", 20)
    monkeypatch.setattr(gently, "STEP", 60)
    assert snapshots.check(jfk, "t", gently=True).unexplained == 300
    assert max(asked_together) > 100
    # Each of these takes too long, but not the fewest, which are never divided.
    monkeypatch.setattr(gently, "LONGEST_STATEMENT", 0.001)
    assert snapshots.check(jfk, "t", gently=True).unexplained == 300


@pytest.mark.parametrize("gentle", [False, True])
def test_progress_tells_pages_of_both_sides(
    jfk: Site, monkeypatch: pytest.MonkeyPatch, *, gentle: bool
) -> None:
    monkeypatch.setattr(reader, "PART_PAGES", 20)
    told: list[tuple[int, int | None, str]] = []

    def note(done: int, total: int | None, unit: str) -> None:
        told.append((done, total, unit))

    def check() -> None:
        told.clear()
        snapshots.check(jfk, "t", gently=gentle, progress=note)

    check()
    done, totals, units = zip(*told, strict=True)
    assert set(units) == {"pages"}
    [total] = set(totals)
    assert total > 500
    assert len(done) >= 4
    assert list(done) == sorted(done)
    assert done[-1] == total
    # What differs is read again, and then explained.
    monkeypatch.setattr(tally, "MANY", 5)
    spoil(jfk)
    check()
    pages = [one for one in told if one[2] == "pages"]
    assert pages[-1] == (2 * total, 2 * total, "pages")
    assert [one for one in told if one[2] == "rows"] == [
        (5 * n, None, "rows") for n in range(1, 4)
    ]
