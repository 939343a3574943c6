"""Memory of a refresh: flat however many keys changed, and bounded for all rows.

What each process holds is asked twice a second, of all that the refresh has:
this one, Spark's, the workers of Spark, and the server's sessions. What a server's
sessions share is not counted: a page of its buffers looks like one session's own as
long as no other has touched it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from sqlalchemy import text

import masters
import snapshots
from benchmarks.pairs import Result, compared
from benchmarks.setting import create_orders, directory
from sites import Directory
from sites.configured import Configuration, configure

#: What Spark is given, in this benchmark.
HEAP = "2g"

#: Changed keys with which the others are compared.
FEW = 10_000

#: Seconds between two looks, which cost something themselves.
PACE = 0.5

#: Kinds of process, by a word of their command line.
_KINDS = {"java": "Spark", "pyspark": "workers of Spark", "postgres": "server"}


def run(rows: int) -> list[Result]:
    """Few changed keys, three in ten of all rows, and a complete refresh."""
    many = rows * 3 // 10
    with directory("hq", "jfk") as sites:
        configure(
            Configuration(directory=sites, spark_conf={"spark.driver.memory": HEAP})
        )
        with sites["hq"].begin() as connection:
            create_orders(connection, rows)
        masters.create_snapshot_log(sites["hq"], "orders")
        snapshots.create(sites["jfk"], "orders", master="hq")
        first = peaks(lambda: snapshots.refresh(sites["jfk"], "orders"))
        # The many first: Spark takes the heap that it was given, and keeps it.
        more, few = _changed(sites, many), _changed(sites, FEW)
        complete = peaks(lambda: _complete(sites))
    results = [
        _result(kind, f"{many:,} changed keys", more, f"{FEW:,}", few, 1.5)
        for kind in sorted(few.keys() & more.keys())
    ]
    for name, most in (("first load", first), ("complete refresh", complete)):
        what = f"{name} of {rows:,} rows"
        heap = {"Spark": float(2048)}
        results.append(_result("Spark", what, most, f"its heap of {HEAP}", heap, 1.5))
    return results


def _result(
    kind: str,
    what: str,
    peaks: dict[str, float],
    against: str,
    others: dict[str, float],
    bar: float,
) -> Result:
    name = f"refresh: peak memory, {kind}"
    values, against_values = [peaks[kind]], [others[kind]]
    return compared(name, what, against, values, against_values, bar=bar, unit="MB")


def _changed(sites: Directory, keys: int) -> dict[str, float]:
    with sites["hq"].begin() as connection:
        connection.execute(
            text("UPDATE public.orders SET qty = qty + 1 WHERE id <= :keys"),
            {"keys": keys},
        )
    return peaks(lambda: snapshots.refresh(sites["jfk"], "orders"))


def _complete(sites: Directory) -> None:
    snapshots.refresh(sites["jfk"], "orders", method="c")


def peaks(work: Callable[[], object]) -> dict[str, float]:
    """The most that each kind of process held at once, in MB."""
    peaks: dict[str, float] = defaultdict(float)
    with _watching(peaks):
        work()
    return peaks


@contextmanager
def _watching(peaks: dict[str, float]) -> Iterator[None]:
    over = threading.Event()

    def watch() -> None:
        while not over.wait(PACE):
            for kind, held in _held().items():
                peaks[kind] = max(peaks[kind], held)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _held() -> dict[str, float]:
    held: dict[str, float] = defaultdict(float)
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        with suppress(psutil.Error, OSError):
            held[_kind(process, me)] += _own(process)
    return held


def _own(process: psutil.Process) -> float:
    """What a process does not share, in MB; what it has from a fork counts in parts."""
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    kept = (line.split() for line in lines[1:])
    return sum(float(n) for name, n, *_ in kept if name == "Pss_Anon:") / 2**10


def _kind(process: psutil.Process, me: psutil.Process) -> str:
    if process == me:
        return "driver"
    words = " ".join(process.cmdline()[:4])
    return next((kind for word, kind in _KINDS.items() if word in words), "others")
