"""A program whose Spark tasks run twice: some fail when they are done, some are slow.

It does on a cluster what a worker does: first loads, and refreshes that executors
compare. Partition 0 of each meets with the accident that is asked for.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

import snapshots
from sites import Directory
from sites.conditions import ranges
from sites.configured import Configuration, configure
from snapshots.differences import comparison
from snapshots.spark import executors, load
from snapshots.spark.executors import Task

#: Seconds until one attempt gives up waiting for the other.
PATIENCE = 180

#: What the two accidents are called, and the tables that meet with them.
FAILS, SLOW = "fails", "slow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accident:
    """What happens to the attempts at one task; they tell each other by files."""

    kind: str
    marks: Path

    def before_writing(self) -> None:
        """A slow first attempt begins when the second has written."""
        if self.kind == SLOW and _attempt() == 0:
            self._wait("second")

    def after_writing(self) -> None:
        """A first attempt fails now; a second one ends when the first has written.

        There is a third where the first fails while the second is still beginning.
        """
        if _attempt() == 0:
            self._mark("first")
            if self.kind == FAILS:
                raise RuntimeError("This attempt fails after it has written.")
        elif _attempt() is not None:
            self._mark("second")
            if _attempt() == 1:
                self._wait("first")

    def _mark(self, name: str) -> None:
        (self.marks / name).touch()

    def _wait(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (self.marks / name).exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"The {name} attempt has not written.")
            time.sleep(0.05)


def _attempt() -> int | None:
    """Which attempt at partition 0 this is."""
    context = TaskContext.get()
    assert context is not None
    return None if context.partitionId() else context.attemptNumber()


def with_accident(make: Callable[..., Task], accident: Accident) -> Callable[..., Task]:
    """What makes tasks, with that accident."""

    def made(*args: Any) -> Task:
        run = make(*args)

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            accident.before_writing()
            done = list(run(batches))
            accident.after_writing()
            yield from done

        return task

    return made


#: What makes the tasks of a first load, and of a refresh that executors compare.
_LOAD, _WRITE = load._task, executors._write_task


def main() -> None:
    """Load and refresh the snapshot of each table, when told to on standard input."""
    asked = json.loads(sys.stdin.readline())
    sites = Directory(asked["urls"])
    configure(
        Configuration(
            directory=sites, spark_master=asked["master"], spark_conf=asked["settings"]
        )
    )
    # Executors are to compare few rows as well, and to load them in several ranges.
    comparison.SMALL_WINDOW = 10
    ranges.PART_BYTES = 8192
    for line in sys.stdin:
        what, table = line.split()
        marks = Path(asked["marks"]) / f"{what}-{table}"
        marks.mkdir()
        accident = Accident(kind=table, marks=marks)
        load._task = with_accident(_LOAD, accident)
        executors._write_task = with_accident(_WRITE, accident)
        snapshots.refresh(sites["jfk"], table)
        print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
