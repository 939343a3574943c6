"""A refresh at the command line, beside a worker that has Spark warm."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time

from sqlalchemy import text

import masters
import snapshots
from benchmarks.commands import LIBRARIES
from benchmarks.pairs import Result, compared
from benchmarks.setting import create_orders, directory
from benchmarks.spark_floor import UP
from benchmarks.visible import services
from sites import Directory

#: Of the table, and how many of them are changed before each refresh.
ROWS, CHANGED = 10_000, 100

#: A refresh from the first line of its process to the last, in seconds.
BAR = 1.0

_CHANGE = text("UPDATE public.orders SET qty = qty + 1 WHERE id % :step = :n")


def run(rounds: int) -> list[Result]:
    """The first one beside the worker, and some after it."""
    with directory("hq", "jfk") as sites:
        with sites["hq"].begin() as connection:
            create_orders(connection, ROWS)
        masters.create_snapshot_log(sites["hq"], "orders")
        snapshots.create(sites["jfk"], "orders", master="hq")
        snapshots.refresh(sites["jfk"], "orders")
        with services(sites) as config:
            time.sleep(UP)
            changes = itertools.count(1)
            pairs = [
                (_seconds(sites, str(config), changes), _imports())
                for _ in range(rounds)
            ]
    name = "snaptide refresh, beside a worker up for a minute"
    seconds, imports = zip(*pairs, strict=True)
    parts = {"the first": seconds[:1], "later ones": seconds[1:]}
    return [
        *(
            compared(name, which, f"{BAR:g} s", some, [BAR] * len(some), bar=1.0)
            for which, some in parts.items()
            if some
        ),
        # On a busy machine this says more.
        compared(name, "each", f"python -c '{LIBRARIES}'", seconds, imports),
    ]


def _imports() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", LIBRARIES], check=True)
    return time.perf_counter() - began


def _seconds(sites: Directory, config: str, changes: itertools.count[int]) -> float:
    with sites["hq"].begin() as connection:
        connection.execute(_CHANGE, {"step": ROWS // CHANGED, "n": next(changes)})
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "snaptide", "refresh", "jfk", "orders"],
        env={**os.environ, "SNAPTIDE_CONFIG": config},
        capture_output=True,
        check=True,
    )
    return time.perf_counter() - began
