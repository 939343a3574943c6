"""The Spark session of this process: started once, kept warm, stopped at exit."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyarrow.lib import ArrowException
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sites import extras
from snapshots.spark import connect, lean
from snapshots.spark.errors import (
    JavaMissing,
    SparkAfterFork,
    SparkAlreadyRunning,
    SparkError,
    SparkNotStarted,
)
from snapshots.spark.java import java_home

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
# The level that Spark's shells set is this logger's, if it has one of its own.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""

#: For every master.
_COMMON = {
    "spark.app.name": "snaptide",
    **connect.COMMON,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A larger table goes to the tasks as Arrow, not as objects of Java: half the time.
    "spark.sql.execution.arrow.localRelationThreshold": "1m",
}

#: How gRPC begins the line of an error that says why.
_WHY = "details = "


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    spark: SparkSession
    master: str
    settings: dict[str, str]
    process: int


_lock = threading.RLock()
_running: _Running | None = None

#: Set while a JVM starts.
_launching = threading.Event()


def session(master: str = "local[*]", **settings: str) -> SparkSession:
    """The one Spark session of this process, started by the first call.

    Parameters:
        master: `local[*]` for Spark in this process's own JVM, `spark://...` for
            a cluster, `sc://...` for Spark Connect, which needs no Java here.
            Executors need Snaptide: installed there, or in an archive
            (`spark.archives`, as `snapshots.spark.archive.write` makes it).
        **settings: settings of Spark, by their full names; they override ours.

    Raises:
        JavaMissing: no Java runtime is on this machine.
        MissingExtra: Spark Connect needs `snaptide[connect]`.
        SparkNotStarted: Spark refused the settings, or the server did not answer.
        SparkAlreadyRunning: a session with another master or settings runs here.
        SparkAfterFork: the session belongs to the process that this was forked from.
    """
    global _running
    with _lock:
        if _running is not None and _running.process != os.getpid():
            raise SparkAfterFork(process=_running.process)
        if _running is not None and _is_remote(_running.master):
            connect.ask(_running.spark)
        if _running is not None and not _is_alive(_running.spark):
            stop()
        if _running is None:
            _running = _start(master, settings)
        elif (_running.master, _running.settings) != (master, settings):
            raise SparkAlreadyRunning(master=_running.master, asked_for=master)
        return _running.spark


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn whatever Spark fails with in a block into an error of ours.

    Parameters:
        what: what the block does, as in "compare rows".

    Raises:
        SparkError: it failed, or its Java runtime ended.
    """
    try:
        yield
    except (Py4JError, PySparkException, ArrowException, OSError, EOFError) as error:
        raise SparkError(f"Spark could not {what}: {_first_line(error)}") from None


def is_running() -> bool:
    """Whether the session of this process is started."""
    with _lock:
        return (
            _running is not None
            and _running.process == os.getpid()
            and _is_alive(_running.spark)
        )


def is_elsewhere() -> bool:
    """Whether the session of this process has no Java runtime here."""
    with _lock:
        return _running is not None and _is_remote(_running.master)


def stop() -> None:
    """Stop the session of this process, if there is one."""
    global _running
    with _lock:
        ended, _running = _running, None
        if ended is None or ended.process != os.getpid():
            return
        if _is_alive(ended.spark):
            ended.spark.stop()
        elif not _is_remote(ended.master):
            _forget_dead_jvm()


def _start(master: str, settings: dict[str, str]) -> _Running:
    try:
        spark = (
            connect.start(master, settings)
            if _is_remote(master)
            else _launch(master, _chosen(master, settings))
        )
    except (JavaMissing, extras.MissingExtra):
        raise
    except Exception as error:
        raise SparkNotStarted(
            f"Spark at {master} could not be started: {_first_line(error)}",
            master=master,
        ) from error
    atexit.register(stop)
    return _Running(
        spark=spark,
        master=master,
        settings=settings,
        process=os.getpid(),
    )


def give_up() -> None:
    """End the JVM of a session that is starting, so that its start fails.

    A start takes seconds, which a process that ends need not wait for.
    """
    if _launching.is_set():
        _end_jvm()


def _launch(master: str, settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(master)
    for name, value in (_COMMON | settings).items():
        builder.config(name, value)
    with _environment(master, settings):
        _launching.set()
        try:
            return builder.getOrCreate()
        except BaseException:
            # PySpark removes the file in which a JVM that it waits for wants to
            # announce itself, and keeps no handle of the JVM, which would never end.
            if SparkContext._gateway is None:
                _end_jvm()
            elif not _answers(SparkContext._gateway):
                _forget_dead_jvm()
            raise
        finally:
            _launching.clear()


def _end_jvm() -> None:
    for jvm in lean.runtimes():
        with suppress(psutil.Error):
            jvm.kill()


@cache
def _folder() -> Path:
    """Spark's folder: one for all sessions, because a JVM keeps its first one."""
    folder = Path(tempfile.mkdtemp(prefix="snaptide-spark-"))
    atexit.register(_clean_up, folder, os.getpid())
    return folder


def _clean_up(folder: Path, process: int) -> None:
    if process == os.getpid():
        stop()
        shutil.rmtree(folder, ignore_errors=True)


def keep_classes(stopping: threading.Event) -> bool:
    """Have later sessions start sooner, if this one could not (`lean.keep_classes`)."""
    with _lock:
        here = _running is not None and _running.master.startswith("local")
    return here and lean.keep_classes(_java_home(), _folder(), stopping)


def _chosen(master: str, settings: dict[str, str]) -> dict[str, str]:
    """Our settings, and over them those of the user."""
    folder = _folder()
    ours = _local_settings(master, folder)
    if master.startswith("local"):
        ours |= lean.options(_java_home(), folder, settings)
    return ours | settings


def _local_settings(master: str, folder: Path) -> dict[str, str]:
    """Settings for one machine and jobs of a fraction of a second (measured)."""
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    quiet = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
    }
    if not master.startswith("local"):
        return quiet
    cores = str(os.cpu_count() or 1)
    return quiet | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": _memory(),
        "spark.sql.shuffle.partitions": cores,
        # Adaptive plans cost a small diff a third of its time and give a large
        # one nothing: keys are unique, so no partition outgrows the others.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # Spark keeps plans of past refreshes for its UI, which is off.
        "spark.sql.ui.retainedExecutions": "1",
        "spark.ui.retainedJobs": "1",
        "spark.ui.retainedStages": "1",
    }


def _memory() -> str:
    """A quarter of the machine, between 1 and 4 GB: Spark spills the rest to disk."""
    megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return f"{min(max(megabytes // 4, 1024), 4096)}m"


@contextmanager
def _environment(master: str, settings: Mapping[str, str]) -> Iterator[None]:
    """The variables that Spark reads when its JVM starts, and only then."""
    wanted = {
        "JAVA_HOME": str(_java_home()),
        "PYTHONPATH": os.pathsep.join(_python_path(master)),
    }
    if master.startswith("local"):
        wanted["PYSPARK_PYTHON"] = sys.executable
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    elif "spark.pyspark.python" in settings:
        # PySpark itself goes by the variable alone.
        wanted["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _python_path(master: str) -> list[str]:
    """Where Python workers of this machine find this package and what it needs.

    Those that plan for a cluster run the Python of its executors, which may be another.
    """
    ours = str(Path(__file__).resolve().parents[2])
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    needed = () if master.startswith("local") else sorted(packages)
    return [ours, *(path for path in others if path), *needed]


@cache
def _java_home() -> Path:
    try:
        return java_home()
    except (OSError, ImportError) as error:
        raise JavaMissing() from error


def _is_remote(master: str) -> bool:
    return master.startswith("sc://")


def _is_alive(spark: SparkSession) -> bool:
    """Whether the session still answers: other code may have stopped it or its JVM."""
    if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
        return not spark.is_stopped  # type: ignore[attr-defined]
    context = spark.sparkContext
    try:
        return context._jsc is not None and not context._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


def _answers(gateway: Any) -> bool:
    """Whether a JVM is there."""
    with suppress(Py4JError, OSError):
        return gateway.jvm.System.nanoTime() is not None
    return False


def _forget_dead_jvm() -> None:
    """Let PySpark start a new JVM: it keeps the connection to one that is gone."""
    gateway = SparkContext._gateway
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
        process.communicate()


def _first_line(error: Exception) -> str:
    """What an error says, and for one of Java not which call it came from."""
    if isinstance(error, Py4JJavaError):
        text = error.java_exception.toString()
    elif isinstance(error, PySparkException):
        text = error.getMessage()
    else:
        text = str(error)
    lines = str(text).strip().splitlines() or [type(error).__name__]
    # Of a call over the network, it says first that it failed, and later why.
    why = (line.strip() for line in lines if line.strip().startswith(_WHY))
    return next(why, lines[0]).removeprefix(_WHY)
