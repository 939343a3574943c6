"""A Spark standalone cluster on this machine, and a server of Spark Connect."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

import pyspark

from snapshots.spark.java import java_home
from snaptide.embedded.ports import free_port

WORKERS = 2

_DEPLOY = "org.apache.spark.deploy"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_ONE_EXECUTOR = "local-cluster[1,1,1024]"
_HERE = "127.0.0.1"

#: Seconds until a server must have started.
_PATIENCE = 180


@contextmanager
def cluster(
    folder: Path,
    hosts: Sequence[str] = (_HERE,) * WORKERS,
    *,
    cores: int = 1,
    master: str = _HERE,
    entering: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Iterator[str]:
    """Start one; gives its address (`spark://...`) and ends it with the block.

    Parameters:
        folder: for what workers write.
        hosts: addresses of this machine, one for each worker. Spark runs a slow
            task once more on another host alone.
        cores: of each worker; each application takes as many as it gets.
        master: the address of the cluster's master.
        entering: by address, words before a command that is to run there, if it is in
            a network of its own.
    """
    port = free_port()
    address = f"spark://{master}:{port}"
    with ExitStack() as running:
        at = ["--webui-port", "0", "--port", str(port), "--host", master]
        running.enter_context(_process(folder, (), f"{_DEPLOY}.master.Master", *at))
        for host in hosts:
            share = ["--cores", str(cores), "--memory", "2g"]
            share += ["--work-dir", str(folder)]
            at = ["--webui-port", "0", "--host", host]
            words = (f"{_DEPLOY}.worker.Worker", *at, *share, address)
            running.enter_context(_process(folder, entering.get(host, ()), *words))
        yield address


@contextmanager
def connect_server(folder: Path, python: str, port: int, java: str) -> Iterator[str]:
    """Start a server of Spark Connect; gives its address (`sc://...`) once it answers.

    It has an executor of its own, which is another process.

    Parameters:
        folder: for what they write.
        python: what both run Python with; nothing of ours is on their path.
        port: of the server.
        java: options of both their Java runtimes.
    """
    conf = {
        "spark.driver.defaultJavaOptions": java,
        "spark.executor.defaultJavaOptions": java,
        "spark.connect.grpc.binding.address": _HERE,
        "spark.connect.grpc.binding.port": str(port),
        "spark.executorEnv.PYSPARK_PYTHON": python,
        **settings(),
    }
    for ours in ("spark.executorEnv.PYTHONPATH", "spark.pyspark.python"):
        del conf[ours]
    pairs = [word for item in conf.items() for word in ("--conf", "=".join(item))]
    words = [f"{_DEPLOY}.SparkSubmit", "--class", _CONNECT, "--master", _ONE_EXECUTOR]
    with _process(
        folder,
        (),
        *(*words, "--driver-memory", "1g", *pairs, "spark-internal"),
        environment={
            "PYSPARK_PYTHON": python,
            "PYTHONPATH": "",
            "SPARK_WORKER_DIR": str(folder),
        },
    ) as process:
        deadline = time.monotonic() + _PATIENCE
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((folder / "log").read_text()[-6000:])
            time.sleep(0.1)
        yield f"sc://{_HERE}:{port}"


def _answers(port: int) -> bool:
    try:
        socket.create_connection((_HERE, port), timeout=1).close()
    except OSError:
        return False
    return True


def settings(driver: str | None = _HERE) -> dict[str, str]:
    """What a session on this cluster needs to know of this machine.

    Parameters:
        driver: the address of the session; None where SPARK_LOCAL_IP says it.
    """
    at = {"spark.driver.host": driver, "spark.driver.bindAddress": driver}
    return {name: address for name, address in at.items() if address} | {
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
def _process(
    folder: Path,
    enter: Sequence[str],
    *words: str,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[subprocess.Popen[bytes]]:
    host = words[words.index("--host") + 1] if "--host" in words else _HERE
    home = Path(pyspark.__file__).parent
    given = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        # Not the executors': master and workers have little to do.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **environment,
    }
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [*enter, home / "bin" / "spark-class", *words],
            env=given,
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=180)
