"""From a commit at the site until it is visible at the master, pushed by a worker."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

import masters
from benchmarks.pairs import Result, compared
from benchmarks.push import link
from benchmarks.setting import create_orders, directory
from sites import Directory
from snaptide.embedded import RedisServer

#: One row of so many is changed at a time.
ROWS = 1_000

#: Between two commits, in seconds: the worker has nothing to do when one comes.
QUIET = 0.6

#: The first ones find a worker that has not pushed before, at least one at each site.
WARM_UP = 5

#: Sites at which the worker listens, where there are many.
MANY = 50

#: Seconds after which a commit should have been visible, however busy the machine is.
LONGEST = 60

Session = psycopg.Connection[tuple[Any, ...]]

_CHANGE = "UPDATE public.{} SET qty = qty + 1 WHERE id = {} RETURNING qty"
_SHOWN = "SELECT qty FROM public.{} WHERE id = {}"


def run(commits: int) -> list[Result]:
    """Single rows, committed one by one, and the same carried by hand."""
    return [
        *_measured(commits, "worker idle and warm", ("jfk",), bar=5),
        *_measured(
            commits,
            f"each at another of {MANY} sites",
            [f"s{number}" for number in range(MANY)],
            bar=6,
        ),
    ]


def _measured(
    commits: int, which: str, names: Sequence[str], bar: float
) -> list[Result]:
    """The median and the 90th percentile, from commits at each site in turn."""
    with (
        directory("hq", *names, prepare=_fill, max_connections="400") as sites,
        ExitStack() as stack,
    ):
        for table in ("orders", "bare"):
            masters.create_snapshot_log(sites["hq"], table)
        for name in names:
            link(sites, origin=name)
        stack.enter_context(services(sites))
        at = {name: stack.enter_context(_open(sites, name)) for name in ("hq", *names)}
        pushed, carried = [], []
        warm_up = max(WARM_UP, len(names))
        for n in range(warm_up + commits):
            time.sleep(QUIET if n >= warm_up else QUIET / 4)
            place = n % len(names)  # each site changes a row of its own
            ends = at[names[place]], at["hq"], place + 1
            times = _pushed(*ends), _carried(*ends)
            if n >= warm_up:
                pushed.append(times[0])
                carried.append(times[1])
    name = f"push: from commit until visible, {which}"
    late = statistics.quantiles(pushed, n=10)[-1:]
    by_hand = [statistics.median(carried)]
    return [
        compared(name, "worker", "by hand", pushed, carried, bar=bar),
        compared(f"{name}, 90 %", "worker", "by hand", late, by_hand, bar=8),
    ]


def _fill(sites: Directory) -> None:
    with sites["hq"].begin() as connection:
        create_orders(connection, ROWS)
        create_orders(connection, ROWS, "bare")


def _pushed(here: Session, there: Session, row: int) -> float:
    # It is committed when it comes back.
    wanted = here.execute(_CHANGE.format("orders", row)).fetchone()
    began = time.perf_counter()
    while there.execute(_SHOWN.format("orders", row)).fetchone() != wanted:
        time.sleep(0.0005)
        if time.perf_counter() - began > LONGEST:
            raise TimeoutError("The worker does not push.")
    return time.perf_counter() - began


def _carried(here: Session, there: Session, number: int) -> float:
    """Read, ship and apply by somebody who has both connections open, and knows."""
    here.execute(_CHANGE.format("bare", number))
    began = time.perf_counter()
    row = here.execute("SELECT * FROM public.bare WHERE id = %s", [number]).fetchone()
    assert row is not None
    there.execute(
        "UPDATE public.bare SET region = %s, customer = %s, qty = %s, price = %s,"
        " note = %s, updated_at = %s WHERE id = %s",
        [*row[1:], row[0]],
    )
    there.execute(_SHOWN.format("bare", number)).fetchone()
    return time.perf_counter() - began


@contextmanager
def _open(sites: Directory, name: str) -> Iterator[Session]:
    with psycopg.connect(sites[name].libpq_uri(), autocommit=True) as session:
        yield session


@contextmanager
def services(sites: Directory) -> Iterator[Path]:
    """Redis, and a worker that listens to commits; yields their settings."""
    with broker(sites) as config, _worker(config.parent):
        yield config


@contextmanager
def broker(sites: Directory) -> Iterator[Path]:
    """Redis alone; yields the settings of a worker."""
    with ExitStack() as stack:
        home = tempfile.TemporaryDirectory(prefix="snaptide-bench-")
        folder = Path(stack.enter_context(home))
        redis = RedisServer(folder / "redis")
        redis.start()
        stack.callback(redis.stop)
        config = folder / "snaptide.toml"
        config.write_text(_settings(sites, redis.url(0)), "utf-8")
        yield config


@contextmanager
def _worker(folder: Path) -> Iterator[None]:
    environment = {
        **os.environ,
        "SNAPTIDE_CONFIG": str(folder / "snaptide.toml"),
        "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
    }
    command = [sys.executable, "-m", "celery", "-A", "snaptide", "worker"]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def _settings(sites: Directory, broker: str) -> str:
    lines = [f'[broker]\nurl = "{broker}"']
    for site in sites.values():
        url = site.url.set(drivername="postgresql")
        shown = url.render_as_string(hide_password=False)
        lines.append(f'[sites.{site.name}]\nurl = "{shown}"')
    return "\n".join(lines)
