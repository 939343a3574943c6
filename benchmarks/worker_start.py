"""From the start of a worker until its first task is done: a push that waits for it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg

import masters
import snapshots
from benchmarks.pairs import Result, compared
from benchmarks.setting import create_orders, directory
from benchmarks.visible import LONGEST, broker
from sites import Directory
from snaptide.application import PUSH, celery_app, enqueue
from snaptide.settings import Settings

ROWS = 1_000

#: Seconds within which the change that waits is to be at the master.
BAR = 3.0

#: No worker can do without these.
LIBRARIES = (
    "import celery.bin.worker, kombu.transport.redis, psycopg, sqlalchemy, typer"
)

_CHANGE = "UPDATE public.orders SET note = %s WHERE id = 1"
_SHOWN = "SELECT note FROM public.orders WHERE id = 1"


def run(rounds: int) -> list[Result]:
    """A worker with a snapshot site, so that it starts Spark beside its first task."""
    with directory("hq", "jfk") as sites, broker(sites) as config:
        with sites["hq"].begin() as connection:
            create_orders(connection, ROWS)
        masters.create_snapshot_log(sites["hq"], "orders")
        snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
        snapshots.refresh(sites["jfk"], "orders")
        changes = itertools.count()
        pairs = [
            (_until_done(sites, config, f"change {next(changes)}"), _imports())
            for _ in range(rounds + 1)
        ][1:]
    seconds, imports = zip(*pairs, strict=True)
    name = "worker: from its start until its first task is done"
    return [
        compared(name, "each", f"{BAR:g} s", seconds, [BAR] * len(seconds), bar=1.0),
        # On a busy machine this says more.
        compared(name, "each", f"python -c '{LIBRARIES}'", seconds, imports),
    ]


def _imports() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", LIBRARIES], check=True)
    return time.perf_counter() - began


def _until_done(sites: Directory, config: Path, note: str) -> float:
    with sites["jfk"].begin() as connection:
        connection.exec_driver_sql(_CHANGE, (note,))
    enqueue(celery_app(Settings.load(config)), PUSH, "jfk", "hq")
    # It is to run tasks, and not to push by itself.
    environment = {
        **os.environ,
        "SNAPTIDE_CONFIG": str(config),
        "SNAPTIDE_WORKER__LISTEN": "false",
    }
    command = [sys.executable, "-m", "snaptide", "worker"]
    with (
        psycopg.connect(sites["hq"].libpq_uri(), autocommit=True) as there,
        (config.parent / "worker.log").open("wb") as log,
    ):
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            while there.execute(_SHOWN).fetchone() != (note,):
                time.sleep(0.005)
                if time.perf_counter() - began > LONGEST:
                    raise TimeoutError("The worker does not push.")
            return time.perf_counter() - began
        finally:
            process.terminate()
            process.wait(timeout=60)
