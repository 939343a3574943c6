"""Executors of a cluster on which nothing of Snaptide is installed."""

import json
from collections.abc import Mapping
from pathlib import Path

import snapshots
from benchmarks import spark_cluster
from sites import Directory
from tests.fix_sites import log
from tests.fix_spark import JAVA_OPTIONS
from tests.linked_table import run
from tests.processes import ended

ROWS = 400

PROGRAM = """
import sys
import snapshots
from sites.configured import Configuration, configure
from snapshots.differences import comparison

conf = json.loads(sys.argv[2])
configure(Configuration(directory=sites, spark_master=sys.argv[1], spark_conf=conf))
# Executors are to compare few rows as well.
comparison.SMALL_WINDOW = 10
snapshots.refresh(sites["jfk"], "orders")
with sites["hq"].begin() as connection:
    connection.exec_driver_sql("UPDATE public.orders SET n = -n WHERE mod(id, 2) = 0")
snapshots.refresh(sites["jfk"], "orders")
"""


def test_executors_import_from_the_archive(
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
    conf = spark_cluster.settings() | {
        "spark.pyspark.python": str(bare_python),
        "spark.task.maxFailures": "1",
        "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
    }
    del conf["spark.executorEnv.PYTHONPATH"]
    with spark_cluster.cluster(tmp_path, hosts=["127.0.0.1"]) as address:
        without = ended(PROGRAM, sites, address, json.dumps(conf))
        assert without.returncode != 0
        assert "No module named" in without.stderr
        done = ended(PROGRAM, sites, address, json.dumps({**conf, **executor_archive}))
    assert done.returncode == 0, done.stderr
    content = "SELECT id, n FROM public.orders ORDER BY id"
    assert run(sites["jfk"], content) == run(sites["hq"], content)
