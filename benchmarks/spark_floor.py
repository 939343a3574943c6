"""The floor of a small refresh: the same rows, already here, compared by bare Spark."""

from __future__ import annotations

import pyarrow as pa

from snapshots.differences import difference


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
