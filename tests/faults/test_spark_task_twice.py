"""Spark runs a task twice: after a failure, or because the first attempt is slow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import snapshots
from benchmarks import spark_cluster
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_spark import JAVA_OPTIONS
from tests.linked_table import run
from tests.spark_attempts import FAILS, SLOW

ROOT = Path(__file__).resolve().parents[2]

TABLES = (FAILS, SLOW)

#: A slow task gets its second attempt soon; a failed one may be tried once more.
TWICE = {
    "spark.task.maxFailures": "2",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.task.duration.threshold": "500ms",
    # As the driver of tests: what the second compiler costs never comes back.
    "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
}

#: What attempts leave behind.
LEFT_OVER = """
SELECT relname FROM pg_class WHERE relname ~ '^(stage|keys)[$]'
UNION ALL SELECT range_no::text FROM snaptide.load_range
"""


@pytest.fixture
def tables(sites: Directory) -> Directory:
    """Two snapshots that were created and wait for their first load."""
    for table in TABLES:
        run(
            sites["hq"],
            f"CREATE TABLE public.{table} (id int PRIMARY KEY, n int)",
            f"INSERT INTO public.{table} SELECT i, i FROM generate_series(1, 500) i",
        )
        log(sites["hq"], table)
        snapshots.create(sites["jfk"], table, master="hq", updatable=True)
    return sites


def test_a_task_that_runs_twice_counts_once(
    tables: Directory, java_home: Path, tmp_path: Path
) -> None:
    hq, jfk = tables["hq"], tables["jfk"]
    hosts = ("127.0.0.1", "127.0.0.2")
    with (
        spark_cluster.cluster(tmp_path, hosts) as address,
        _program(tables, address, tmp_path) as refresh,
    ):
        for table in TABLES:
            refresh("load", table)
            assert _content(jfk, table) == _content(hq, table)
        for table in TABLES:
            run(
                hq,
                f"UPDATE public.{table} SET n = n + 1000 WHERE id % 3 = 0",
                f"DELETE FROM public.{table} WHERE id % 30 = 1",
                f"INSERT INTO public.{table}"
                " SELECT i, i FROM generate_series(501, 700) i",
            )
            run(jfk, f"UPDATE public.{table} SET n = -1 WHERE id % 30 = 2")
            refresh("fast", table)
            assert _content(jfk, table) == _content(hq, table)
    assert run(jfk, LEFT_OVER) == []
    # Both attempts have written all that they had, and ended well if they could.
    both = {f"{what}-{table}" for what in ("load", "fast") for table in TABLES}
    for name in ("first", "second"):
        assert {p.parent.name for p in tmp_path.glob(f"*/{name}")} == both


def _content(site: Site, table: str) -> list[tuple[object, ...]]:
    return run(site, f"SELECT id, n FROM public.{table} ORDER BY id")


@contextmanager
def _program(
    sites: Directory, master: str, folder: Path
) -> Iterator[Callable[[str, str], None]]:
    """The process that refreshes: this one has a Spark session already."""
    asked = {
        "urls": {
            n: s.url.render_as_string(hide_password=False) for n, s in sites.items()
        },
        "master": master,
        "settings": spark_cluster.settings() | TWICE,
        "marks": str(folder),
    }
    log = folder / "program.log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark_attempts"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(asked), file=process.stdin, flush=True)

        def refresh(what: str, table: str) -> None:
            print(what, table, file=process.stdin, flush=True)
            assert process.stdout is not None
            assert process.stdout.readline() == "done\n", log.read_text()[-6000:]

        yield refresh
        process.stdin.close()
        assert process.wait(timeout=120) == 0
