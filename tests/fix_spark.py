"""Spark for tests: a Java runtime and one local session for the run."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from snapshots.spark.java import java_home as find_java_home
from snaptide.cli import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Tests compare few rows: what the second compiler, several collectors' threads and
#: the proof of Spark's own code cost never comes back.
JAVA_OPTIONS = (
    "-XX:+UnlockDiagnosticVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:-BytecodeVerificationRemote"
)
_VARIABLE = "PYSPARK_SUBMIT_ARGS"


def submitted(*options: str) -> str:
    """What PySpark submits to start a Java with our options and these."""
    given = " ".join([JAVA_OPTIONS, *options])
    return f"--conf 'spark.driver.defaultJavaOptions={given}' pyspark-shell"


# For the sessions of workers too, which are other processes.
os.environ.setdefault(_VARIABLE, submitted())


def pytest_configure(config: pytest.Config) -> None:
    """Have a run of several processes write the archive of classes, if there is none.

    It takes as long as some tests do: runs of a few tests are quicker without.
    """
    archive = _archive(config)
    if not archive.exists() and getattr(config.option, "numprocesses", None):
        # Imported late: it imports this.
        from tests import java_classes

        java_classes.make(archive)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the next runtimes map the archive, once it is there."""
    if os.environ[_VARIABLE] == submitted() and _archive(item.config).exists():
        mapped = f"-XX:SharedArchiveFile={_archive(item.config)} -Xlog:cds*=error"
        os.environ[_VARIABLE] = submitted(mapped)


def _archive(config: pytest.Config) -> Path:
    """The file of Spark's classes; one of another Java or Spark is passed over."""
    return config.rootpath / ".pytest_cache" / "spark.jsa"


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
    end_jvm()


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python of this version without any package."""
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def executor_archive(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What executors need, in one file for all processes of this run.

    The settings of Spark that the command prints which writes it.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path, said = folder / "executors.tar.gz", folder / "executors.json"
    with (folder / "executors.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            done = CliRunner().invoke(app, ["spark", "archive", str(path), "--json"])
            assert done.exit_code == 0, done.output
            said.write_text(done.stdout)
    conf: Mapping[str, str] = json.loads(said.read_text())["conf"]
    return conf


def end_jvm() -> None:
    """End the JVM, which PySpark keeps, with open pipes, until Python ends."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    # The JVM ends when its standard input does.
    gateway.proc.communicate(timeout=300)
