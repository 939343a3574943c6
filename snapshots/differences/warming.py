"""Compares rows of its own, so that the first refreshes find Spark warm.

A first comparison in a Java runtime takes ten times as long as the hundredth: Spark's
classes are not loaded, and none of its code is compiled. All of it goes through what
refreshes use, `difference.small`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from sites.extras import pa
from snapshots.differences import difference
from snapshots.differences.shared_job import Pair

#: After so many comparisons further ones gain little.
ENOUGH = 70

#: Rows of a side. Spark carries the larger ones in another way.
FEW, MANY = 100, 10_000

#: Each fourth comparison has many rows, and each seventh those of two snapshots.
_MANY_EACH, _TWO_EACH = 4, 7


def comparisons() -> Iterator[None]:
    """Start Spark, then compare something at each step.

    A server of Spark Connect, which others use too, is left to get warm by itself.

    Raises:
        SparkError: Spark does not start, or fails.
    """
    difference.session()
    yield
    if difference.is_elsewhere():
        return
    few, many = _pair(FEW), _pair(MANY)
    for n in range(1, ENOUGH + 1):
        pairs = [many if n % _MANY_EACH == 0 else few]
        if n % _TWO_EACH == 0:
            pairs.append(few)
        difference.small(pairs)
        yield


def give_up() -> None:
    """End the start of Spark, if it is under way; `comparisons` then raises."""
    from snapshots.spark.session import give_up

    give_up()


def keep_classes(stopping: threading.Event) -> bool:
    """Have Spark start sooner in later processes of this machine.

    Parameters:
        stopping: ends it; it takes half a minute, once.

    Returns:
        Whether anything was written for them.
    """
    from snapshots.spark.session import keep_classes

    return keep_classes(stopping)


def _pair(rows: int) -> Pair:
    """A table with columns as most have, of which a tenth of the rows differ."""
    numbers = range(rows)
    master = pa.table(
        {
            "c1": pa.array(numbers, pa.int32()),
            "c2": [f"r{n % 10}" for n in numbers],
            "c3": pa.array([n % 50 for n in numbers], pa.int64()),
            "c4": [None if n % 3 else n % 2 == 0 for n in numbers],
            "c5": [f"{n:040x}" for n in numbers],
        }
    )
    changed = pa.array([n % 50 + (n % 10 == 0) for n in numbers], pa.int64())
    present = master.set_column(2, "c3", changed)
    return Pair(master=master, present=present, key=["c1"], columns=master.column_names)
