"""From a commit at the site until it is visible at the master, pushed by a worker."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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

#: The first ones find a worker that has not pushed before.
WARM_UP = 5

Session = psycopg.Connection[tuple[Any, ...]]

_CHANGE = "UPDATE public.{} SET qty = qty + 1 WHERE id = 1 RETURNING qty"
_SHOWN = "SELECT qty FROM public.{} WHERE id = 1"


def run(commits: int) -> list[Result]:
    """Single rows, committed one by one, and the same carried by hand."""
    with directory("hq", "jfk") as sites, ExitStack() as stack:
        for site in sites.values():
            with site.begin() as connection:
                create_orders(connection, ROWS)
                create_orders(connection, ROWS, "bare")
        for table in ("orders", "bare"):
            masters.create_snapshot_log(sites["hq"], table)
        link(sites)
        stack.enter_context(services(sites))
        here, there = (stack.enter_context(_open(sites, n)) for n in ("jfk", "hq"))
        pushed, carried = [], []
        for n in range(WARM_UP + commits):
            time.sleep(QUIET)
            times = _pushed(here, there), _carried(here, there)
            if n >= WARM_UP:
                pushed.append(times[0])
                carried.append(times[1])
        name = "push: from commit until visible, worker idle and warm"
        return [compared(name, "worker", "by hand", pushed, carried, bar=10)]


def _pushed(here: Session, there: Session) -> float:
    wanted = here.execute(_CHANGE.format("orders")).fetchone()  # committed when back
    began = time.perf_counter()
    while there.execute(_SHOWN.format("orders")).fetchone() != wanted:
        time.sleep(0.0005)
    return time.perf_counter() - began


def _carried(here: Session, there: Session) -> float:
    """Read, ship and apply by somebody who has both connections open, and knows."""
    here.execute(_CHANGE.format("bare"))
    began = time.perf_counter()
    row = here.execute("SELECT * FROM public.bare WHERE id = 1").fetchone()
    assert row is not None
    there.execute(
        "UPDATE public.bare SET region = %s, customer = %s, qty = %s, price = %s,"
        " note = %s, updated_at = %s WHERE id = %s",
        [*row[1:], row[0]],
    )
    there.execute(_SHOWN.format("bare")).fetchone()
    return time.perf_counter() - began


@contextmanager
def _open(sites: Directory, name: str) -> Iterator[Session]:
    with psycopg.connect(sites[name].libpq_uri(), autocommit=True) as session:
        yield session


@contextmanager
def services(sites: Directory) -> Iterator[Path]:
    """Redis, a worker, and beat, which listens to commits; yields their settings."""
    with ExitStack() as stack:
        home = tempfile.TemporaryDirectory(prefix="snaptide-bench-")
        folder = Path(stack.enter_context(home))
        redis = RedisServer(folder / "redis")
        redis.start()
        stack.callback(redis.stop)
        config = folder / "snaptide.toml"
        config.write_text(_settings(sites, redis.url(0)), "utf-8")
        for service in ("worker", "beat"):
            stack.enter_context(_service(service, folder))
        yield config


@contextmanager
def _service(name: str, folder: Path) -> Iterator[None]:
    environment = {
        **os.environ,
        "SNAPTIDE_CONFIG": str(folder / "snaptide.toml"),
        "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
    }
    command = [sys.executable, "-m", "celery", "-A", "snaptide", name]
    with (folder / f"{name}.log").open("wb") as log:
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
