"""Runs a soak of a group, and tells how it stands."""

from __future__ import annotations

import argparse
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import Manager, get_context

from rich.console import Console

import groups
from sites import Directory
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_db import new_folder
from tests.soak import group, work

#: How often it is told how it stands, in seconds.
TOLD = 10.0
#: How long queues may take to empty once users have gone, in seconds.
PATIENCE = 600.0


def main() -> None:
    """Load the group for some minutes; queues have to be empty afterwards."""
    asked = _arguments()
    console = Console(width=max(Console().width, 100))
    shape = (
        partial(groups.star, hub="m1") if asked.shape == "star" else groups.full_mesh
    )
    with _servers() as urls:
        sites = Directory(urls)
        group.found(sites, shape)
        console.print(f"{len(sites)} masters, a {asked.shape}, {asked.rate} changes/s")
        try:
            _soak(console, urls, sites, asked)
        finally:
            sites.close()


def _soak(
    console: Console,
    urls: Mapping[str, str],
    sites: Directory,
    asked: argparse.Namespace,
) -> None:
    each = asked.rate / len(group.NAMES) / work.ROWS
    load = work.Load(rate=each)
    workers = 2 * len(group.NAMES)
    with (
        Manager() as shared,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        gone, over = shared.Event(), shared.Event()
        # Processes take a while to come; time is counted when all are there.
        there = shared.Barrier(workers)
        for one in [pool.submit(work.come, there, PATIENCE) for _ in range(workers)]:
            one.result()
        pushers = [pool.submit(work.carry, urls, name, over) for name in group.NAMES]
        made = Counter[str]()
        try:
            first = _start(pool, urls, work.Load(transactions=1), gone)
            made.update({name: one.result() for name, one in first.items()})
            _drain(console, sites)  # each way was gone once: nothing is made anew
            users = _start(pool, urls, load, gone)
            working = [*users.values(), *pushers]
            longest = _watch(console, sites, asked.minutes * 60, working)
            gone.set()
            made.update({name: one.result() for name, one in users.items()})
            drained = _drain(console, sites)
        finally:
            gone.set()
            over.set()
        moved = sum(one.result() for one in pushers)
    rows = group.assert_quiet(sites, made)
    changes = sum(made.values()) * work.ROWS
    console.print(
        f"{changes} changes in {sum(made.values())} transactions, {moved} deliveries:"
        f" {changes / asked.minutes / 60:.0f} changes/s; longest lag {longest:.1f} s,"
        f" empty {drained:.1f} s after the last change; {rows} rows, all masters equal,"
        " each change at each master once"
    )


def _start(
    pool: ProcessPoolExecutor, urls: Mapping[str, str], load: work.Load, gone: work.Flag
) -> dict[str, Future[int]]:
    return {
        name: pool.submit(work.write, urls, name, load, gone) for name in group.NAMES
    }


def _watch(
    console: Console, sites: Directory, seconds: float, working: list[Future[int]]
) -> float:
    """Tell how it stands until the time is over; the longest lag that was seen."""
    began, longest = time.monotonic(), 0.0
    while time.monotonic() < began + seconds:
        time.sleep(TOLD)
        for one in working:
            if one.done():
                one.result()
                raise RuntimeError("Users or pushes have ended too early.")
        now = group.depth(sites)
        longest = max(longest, now.lag)
        console.print(
            f"{time.monotonic() - began:6.0f} s  lag {now.lag:5.1f} s"
            f"  {now.calls} calls wait"
        )
    return longest


def _drain(console: Console, sites: Directory) -> float:
    """Wait until nothing waits any more; how long that took."""
    began = time.monotonic()
    while (now := group.depth(sites)).calls:
        console.print(f"   users gone  lag {now.lag:5.1f} s  {now.calls} calls wait")
        if time.monotonic() > began + PATIENCE:
            raise TimeoutError("The queues do not get empty.")
        time.sleep(1)
    return time.monotonic() - began


@contextmanager
def _servers() -> Iterator[dict[str, str]]:
    """A database for each master, all on one server."""
    folder = new_folder("snaptide-soak-")
    server = PostgresServer(folder, settings={"max_connections": "400"})
    try:
        server.start()
        urls = {name: server.create_database(name) for name in group.NAMES}
        directory = Directory(urls)
        for site in directory.values():
            migrate.upgrade(site)
        directory.close()
        yield urls
    finally:
        server.stop()
        shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--rate", type=int, default=1000, help="changes a second in all"
    )
    parser.add_argument("--shape", choices=["mesh", "star"], default="mesh")
    return parser.parse_args()


if __name__ == "__main__":
    main()
