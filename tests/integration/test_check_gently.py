"""A gentle check finds the same as any other, in short statements."""

from collections import Counter
from typing import Any

import pytest

import snapshots
from sites import Directory, Site
from snapshots.check import gently
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
    once = gently._read

    def counted(*given: object, **options: bool) -> object:
        found = once(*given, **options)  # type: ignore[arg-type]
        read.append(found is None)
        return found

    monkeypatch.setattr(gently, "_read", counted)
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
