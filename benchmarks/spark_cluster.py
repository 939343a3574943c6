"""A Spark standalone cluster on this machine: a master and two workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from snapshots.spark.java import java_home
from snaptide.embedded.ports import free_port

WORKERS = 2

_DEPLOY = "org.apache.spark.deploy"
_HERE = "127.0.0.1"


@contextmanager
def cluster(folder: Path, hosts: Sequence[str] = (_HERE,) * WORKERS) -> Iterator[str]:
    """Start one; gives its address (`spark://...`) and ends it with the block.

    Parameters:
        folder: for what workers write.
        hosts: addresses of this machine, one for each worker. Spark runs a slow
            task once more on another host alone.
    """
    port = free_port()
    address = f"spark://{_HERE}:{port}"
    with ExitStack() as running:
        at = ["--webui-port", "0", "--port", str(port), "--host", _HERE]
        running.enter_context(_process(folder, f"{_DEPLOY}.master.Master", *at))
        for host in hosts:
            share = ["--cores", "1", "--memory", "2g", "--work-dir", str(folder)]
            at = ["--webui-port", "0", "--host", host]
            running.enter_context(
                _process(folder, f"{_DEPLOY}.worker.Worker", *at, *share, address)
            )
        yield address


def settings() -> dict[str, str]:
    """What a session on this cluster needs to know of this machine."""
    return {
        "spark.driver.host": _HERE,
        "spark.driver.bindAddress": _HERE,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": str(WORKERS),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
    }


@contextmanager
def _process(folder: Path, *words: str) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": _HERE,
        # Not the executors': master and workers have little to do.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", *words],
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=180)
