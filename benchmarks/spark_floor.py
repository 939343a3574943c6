"""The floor of a small refresh: Spark compares rows which are here already."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pyarrow as pa

from benchmarks.pairs import Result, compared
from benchmarks.setting import directory
from snapshots.differences import difference
from snapshots.differences.shared_job import Pair
from snaptide.standby import Warming

#: Rows of a side, and the bar in a worker that has been up a minute, in seconds.
BARS = ((100, 0.080), (10_000, 0.120))

#: How long that worker has been up, in seconds.
UP = 60.0

#: The comparisons in a fresh process that are shown, by their number.
SHOWN = {1: "the first", 10: "the tenth", 100: "the hundredth"}


class Floor:
    """Two tables of rows, of which one column differs.

    Parameters:
        rows: how many in each.
    """

    def __init__(self, rows: int) -> None:
        self._left, self._right = _table(rows, 0), _table(rows, 1)

    def run(self) -> None:
        """Both into Spark, joined, and back."""
        spark = difference.session()
        left = spark.createDataFrame(self._left)
        right = spark.createDataFrame(self._right)
        joined = left.join(right, left["c1"] == right["c1"], "full_outer")
        joined.toDF(*(f"x{n}" for n in range(len(joined.columns)))).toArrow()


def run(rounds: int) -> list[Result]:
    """What refreshes compare with, cold and warm, in a process of its own each."""
    results = []
    (few, bar), *_ = BARS
    took = _alone(_cold, few, max(SHOWN))
    for number, which in SHOWN.items():
        name = f"Spark's diff of {few:,} rows, in a fresh process"
        results.append(_against(name, which, [took[number - 1]], bar))
    warm = _alone(_up_a_minute, rounds)
    for (rows, bar), seconds in zip(BARS, warm, strict=True):
        name = f"Spark's diff of {rows:,} rows, in a worker up for a minute"
        results.append(_against(name, "a diff", seconds, bar, limit=1.0))
    return results


def _cold(rows: int, count: int) -> list[float]:
    """The times of the first comparisons; the start of Spark is not counted."""
    pair = _pair(rows)
    difference.session()
    return [_seconds(pair) for _ in range(count)]


def _up_a_minute(rounds: int) -> list[list[float]]:
    """The times of comparisons a minute after a worker has begun its own."""
    with directory("jfk"):
        threading.Thread(target=Warming([]).warm, daemon=True).start()
        time.sleep(UP)
        pairs = [_pair(rows) for rows, _ in BARS]
        times = [[_seconds(pair) for pair in pairs] for _ in range(rounds)]
    return [list(one) for one in zip(*times, strict=True)]


def _alone(measure: Callable[..., list[Any]], *arguments: int) -> list[Any]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(measure, *arguments).result()


def _seconds(pair: Pair) -> float:
    began = time.perf_counter()
    difference.small([pair])
    return time.perf_counter() - began


def _against(
    name: str,
    measured: str,
    seconds: list[float],
    fixed: float,
    limit: float | None = None,
) -> Result:
    against = [fixed] * len(seconds)
    return compared(
        name, measured, f"{fixed * 1000:.0f} ms", seconds, against, bar=limit
    )


def _pair(rows: int) -> Pair:
    left = _table(rows, 0)
    return Pair(
        master=left, present=_table(rows, 1), key=["c1"], columns=left.column_names
    )


def _table(rows: int, shift: int) -> pa.Table:
    numbers = range(1, rows + 1)
    return pa.table(
        {
            "c1": pa.array(numbers, pa.int32()),
            "c2": [f"r{n % 10}" for n in numbers],
            "c3": pa.array([n % 1000 for n in numbers], pa.int32()),
            "c4": pa.array([n % 50 + shift for n in numbers], pa.int32()),
            "c5": [f"{n % 10000 / 100:.2f}" for n in numbers],
            "c6": [f"{n:032x}xxxxxxxx" for n in numbers],
            "c7": [f"2026-01-01 00:00:00.{n}+00" for n in numbers],
        }
    )
