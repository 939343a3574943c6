"""A Spark standalone cluster on this machine: a master and two workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from snapshots.spark.java import java_home

WORKERS = 2

_DEPLOY = "org.apache.spark.deploy"


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start one; gives its address (`spark://...`) and ends it with the block.

    Parameters:
        folder: for what workers write.
    """
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        at = ["--host", "127.0.0.1", "--webui-port", "0"]
        running.enter_context(
            _process(folder, f"{_DEPLOY}.master.Master", *at, "--port", str(port))
        )
        for _ in range(WORKERS):
            share = ["--cores", "1", "--memory", "2g", "--work-dir", str(folder)]
            running.enter_context(
                _process(folder, f"{_DEPLOY}.worker.Worker", *at, *share, address)
            )
        yield address


def settings() -> dict[str, str]:
    """What a session on this cluster needs to know of this machine."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
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
        "SPARK_LOCAL_IP": "127.0.0.1",
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
            process.wait(timeout=60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
