"""Spark Connect: a server on whose machines nothing of Snaptide is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import snapshots
from sites import Directory
from snaptide.embedded.ports import free_port
from tests.fix_sites import log
from tests.fix_spark import JAVA_OPTIONS
from tests.linked_table import run
from tests.processes import ended

ROWS = 400

#: First load, few rows, and many; then many beside a server that was started anew.
PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import snapshots
from benchmarks import spark_cluster
from sites.configured import Configuration, configure
from snapshots.differences import comparison
from snapshots.spark.session import stop

asked = json.loads(sys.argv[1])

def server():
    given = Path(asked["folder"]), asked["python"], asked["port"], asked["java"]
    return spark_cluster.connect_server(*given)

def refresh():
    # Not in the thread that has started the session.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(snapshots.refresh, sites["jfk"], "orders").result()

def content(site):
    with sites[site].connect() as connection:
        found = connection.exec_driver_sql("SELECT * FROM public.orders ORDER BY id")
        return found.fetchall()

def changed(most):
    # More rows than this are compared by executors.
    comparison.SMALL_WINDOW = most
    with sites["hq"].begin() as connection:
        connection.exec_driver_sql(
            "UPDATE public.orders SET n = n + 1 WHERE mod(id, 2) = 0;"
            "DELETE FROM public.orders WHERE id = (SELECT min(id) FROM public.orders)"
        )

with server() as address:
    configure(
        Configuration(directory=sites, spark_master=address, spark_conf=asked["conf"])
    )
    refresh()
    for most in (1_000, 10):
        changed(most)
        refresh()
        assert content("jfk") == content("hq"), most
changed(10)
with server():
    refresh()
    assert content("jfk") == content("hq")
    stop()
"""


def test_windows_of_any_size_end_equal(
    sites: Directory,
    java_home: Path,
    bare_python: Path,
    executor_archive: Mapping[str, str],
    tmp_path: Path,
) -> None:
    run(
        sites["hq"],
        "CREATE TABLE public.orders (id int PRIMARY KEY, n int)",
        f"INSERT INTO public.orders SELECT i, i FROM generate_series(1, {ROWS}) i",
    )
    log(sites["hq"], "orders")
    snapshots.create(sites["jfk"], "orders", master="hq")
    asked = {
        "folder": str(tmp_path),
        "python": str(bare_python),
        "port": free_port(),
        "java": JAVA_OPTIONS,
        "conf": dict(executor_archive),
    }
    done = ended(PROGRAM, sites, json.dumps(asked))
    assert done.returncode == 0, done.stderr


def test_a_server_that_does_not_answer_is_told_at_once(sites: Directory) -> None:
    found = ended(
        "from snapshots.spark import connect, session\n"
        "connect._RETRIES = 0\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        session.session('sc://127.0.0.1:1')\n"
        "    except session.SparkNotStarted as error:\n"
        "        print(error)\n",
        sites,
    )
    assert found.stdout.count("could not be started") == 2, found.stderr
    assert found.stdout.count("Connection refused") == 2
