"""Threads that compare rows at the same time share jobs, and never errors or rows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest

from snapshots.differences import shared_job
from snapshots.differences.shared_job import Pair, SharedJobs


def pair(value: int, rows: int = 1) -> Pair:
    table = pa.table({"c1": [value] * rows})
    return Pair(master=table, present=table.slice(0, 0), key=["c1"], columns=["c1"])


class Spark:
    """Has the first job wait, and returns the master's side of each pair."""

    def __init__(self) -> None:
        self.jobs: list[list[int]] = []
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, pairs: Sequence[Pair]) -> list[pa.Table]:
        self.jobs.append([one.master["c1"][0].as_py() for one in pairs])
        self.begun.set()
        assert self.may_end.wait(10)
        if 13 in self.jobs[-1]:
            raise ValueError("13")
        return [one.master for one in pairs]


@pytest.fixture
def spark() -> Spark:
    return Spark()


def ask(spark: Spark, *asked: Sequence[Pair]) -> list[Future[list[pa.Table]]]:
    """Ask for all of these while a job runs, and then let it end."""
    jobs = SharedJobs(spark)
    with ThreadPoolExecutor(len(asked) + 1) as threads:
        threads.submit(jobs.differences, [pair(0)])
        assert spark.begun.wait(10)
        found = [threads.submit(jobs.differences, pairs) for pairs in asked]
        while jobs._waiting.qsize() < len(asked):
            threading.Event().wait(0.001)
        spark.may_end.set()
    return found


def values(found: Future[list[pa.Table]]) -> list[int]:
    return [table["c1"][0].as_py() for table in found.result()]


def test_what_comes_while_a_job_runs_is_compared_together(spark: Spark) -> None:
    found = ask(spark, [pair(1), pair(2)], [pair(3)], [pair(4)])
    assert [values(one) for one in found] == [[1, 2], [3], [4]]
    assert [len(job) for job in spark.jobs] == [1, 4]


def test_an_error_reaches_the_thread_whose_rows_it_is_about(spark: Spark) -> None:
    first, wrong, last = ask(spark, [pair(1)], [pair(13)], [pair(2)])
    assert (values(first), values(last)) == ([1], [2])
    with pytest.raises(ValueError, match="13"):
        wrong.result()
    assert sorted(map(len, spark.jobs)) == [1, 1, 1, 1, 3]


def test_a_job_takes_as_much_as_it_can_hold(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_job, "MOST", 4)
    found = ask(spark, *([pair(n, rows=3)] for n in range(1, 5)))
    assert [values(one) for one in found] == [[1], [2], [3], [4]]
    assert [len(job) for job in spark.jobs] == [1, 2, 2]


def test_a_large_comparison_waits_for_no_job(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_job, "MOST", 4)
    jobs = SharedJobs(spark)
    with ThreadPoolExecutor(2) as threads:
        threads.submit(jobs.differences, [pair(0)])
        assert spark.begun.wait(10)
        large = threads.submit(jobs.differences, [pair(1, rows=4)])
        while len(spark.jobs) < 2:
            threading.Event().wait(0.001)
        spark.may_end.set()
    assert values(large) == [1]
