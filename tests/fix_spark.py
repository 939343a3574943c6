"""Spark for tests: a Java runtime and one local session for the run."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from snapshots.spark.java import java_home as find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Tests compare few rows: what the second compiler, several collectors' threads and
#: the proof of Spark's own code cost never comes back.
JAVA_OPTIONS = (
    "-XX:+UnlockDiagnosticVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:-BytecodeVerificationRemote"
)
# For the sessions of workers too, which are other processes.
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS",
    f"--conf 'spark.driver.defaultJavaOptions={JAVA_OPTIONS}' pyspark-shell",
)


@pytest.fixture(scope="session")
def java_home() -> Iterator[Path]:
    """The Java runtime of this run, in the environment as JAVA_HOME."""
    home = find_java_home()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(home))
        yield home


@pytest.fixture(scope="session")
def spark(java_home: Path) -> Iterator["SparkSession"]:
    """The Spark session of this run."""
    # Imported late: most runs of a few tests need neither Spark nor the seconds.
    from snapshots.spark.session import session, stop

    yield session()
    stop()
    _end_jvm()


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python of this version without any package."""
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def _end_jvm() -> None:
    """End the JVM, which PySpark keeps, with open pipes, until Python ends."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    # The JVM ends when its standard input does.
    gateway.proc.communicate(timeout=300)
