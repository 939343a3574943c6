"""Ctrl-C while Spark starts leaves no JVM behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

# It stays: on a busy machine Spark may be there before the signal is.
PROGRAM = """
import signal
from snapshots.spark.session import session
session()
signal.pause()
"""


@pytest.fixture
def starting(java_home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program whose Spark session is about to be there."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "JAVA_HOME": str(java_home)},
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
    )
    yield program
    program.kill()
    program.wait()


def test_interrupted_start_ends_the_jvm(starting: subprocess.Popen[bytes]) -> None:
    family = psutil.Process(starting.pid)
    deadline = time.monotonic() + 120
    while not (children := [c for c in family.children(recursive=True) if _is_java(c)]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert _interrupted(starting)
    _, alive = psutil.wait_procs(children, timeout=120)
    for process in alive:
        process.kill()
    assert not alive


def _interrupted(program: subprocess.Popen[bytes]) -> int:
    """Its exit code. Python ignores Ctrl-C where a finalizer happens to run."""
    for _ in range(6):
        program.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return program.wait(timeout=20)
    raise AssertionError("the program goes on")


def _is_java(process: psutil.Process) -> bool:
    try:
        return "PythonGatewayServer" in process.cmdline() or "pyspark-shell" in (
            process.cmdline()
        )
    except psutil.Error:
        return False
