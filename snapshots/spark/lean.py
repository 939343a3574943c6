"""Options of the Java runtime of a session on one machine.

They were measured in turns with the runtime's own choice. The serial collector takes a
third less memory, and no more time where there are few processors. An archive of
Spark's classes, which the runtime maps instead of reading and checking each class,
halves the time of a start and of a first comparison. The first compiler alone would
start sooner, but large comparisons would take twice as long.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark

from snapshots.spark.java import is_kept, started_by

#: Up to so many processors one thread collects as fast as several do.
FEW = 4

#: Spark's own settings by which users give options; ours are a default.
_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")

#: Variables by which they may do so.
_VARIABLES = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_CONF_DIR",
)

#: What Java runs for a session.
_MAIN = "org.apache.spark.deploy.SparkSubmit"

#: In the session's folder, the names of the classes that it has loaded.
_CLASSES = "classes"


def options(home: Path, folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Spark's setting with our options; none if users give some of their own.

    A runtime does not start with two collectors.

    Parameters:
        home: the JAVA_HOME, of `snapshots.spark.java`.
        folder: that of the session.
        settings: those of the user.
    """
    theirs = any(name in settings for name in _OPTIONS)
    submitted = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if theirs or "JavaOptions" in submitted or any(v in os.environ for v in _VARIABLES):
        return {}
    collector = ["-XX:+UseSerialGC"] if (os.cpu_count() or 1) <= FEW else []
    return {_OPTIONS[0]: " ".join([*collector, *_sharing(home, folder)])}


def keep_classes(home: Path, folder: Path, stopping: threading.Event) -> bool:
    """Write the archive for later sessions, if this one found none.

    It takes half a minute of a processor that has nothing else to do, and 0.2 GB of the
    cache folder.

    Parameters:
        home, folder: as of `options`.
        stopping: ends it.

    Returns:
        Whether there is a new one.
    """
    classes, archive = folder / _CLASSES, _archive(home)
    if archive is None or not classes.exists() or archive.exists():
        return False
    with suppress(OSError, ValueError, psutil.Error):
        made = archive.with_suffix(f".{os.getpid()}")
        try:
            (jvm,) = runtimes()
            if _is_dumped(_of_java(jvm.cmdline()), classes, made, stopping):
                remove_older(archive)
                made.replace(archive)
                return True
        finally:
            made.unlink(missing_ok=True)
    return False


def runtimes() -> list[psutil.Process]:
    """The Java runtimes of this process; while one starts, there are others."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "pyspark-shell" in child.cmdline():
                found.append(child)
    return found


def _sharing(home: Path, folder: Path) -> Sequence[str]:
    """Use the archive; or else list the classes of which one can be made."""
    archive = _archive(home)
    if archive is None:
        return ()
    if archive.exists():
        # If it does not fit, it is passed over.
        return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=error")
    return (f"-XX:DumpLoadedClassList={folder / _CLASSES}",)


def _archive(home: Path) -> Path | None:
    """The file for this runtime and this Spark; None where no file is kept.

    The first part of its name says where they are, the second which they are now.
    """
    jars = Path(pyspark.__file__).parent / "jars"
    name = f"spark-{_hash(jars)}-{_hash(pyspark.__version__, _version(home, jars))}.jsa"
    # Spark takes options apart at blanks.
    return home / name if is_kept(home) and " " not in str(home) else None


def _version(home: Path, jars: Path) -> str:
    return " ".join(str(one.stat().st_mtime_ns) for one in (started_by(home), jars))


def _hash(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]


def _of_java(command: Sequence[str]) -> Sequence[str]:
    """A command line without what comes behind the main class."""
    return command[: command.index(_MAIN)]


def _is_dumped(
    command: Sequence[str], classes: Path, made: Path, stopping: threading.Event
) -> bool:
    """Have the same Java write the archive, for the same path of classes."""
    # Those of memory, collector and log may differ; what is opened to whom may not.
    kept = ("--", "-XX:+IgnoreUnrecognizedVMOptions")
    given = [one for one in command if one.startswith(kept)]
    path = command[command.index("-cp") + 1]
    dump = subprocess.Popen(
        [
            *("nice", "-n", "19", command[0], *given, "-Xshare:dump", "-cp", path),
            f"-XX:SharedClassListFile={classes}",
            f"-XX:SharedArchiveFile={made}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while dump.poll() is None:
        if stopping.wait(0.5):
            dump.kill()
    return dump.wait() == 0 and made.exists()


def remove_older(archive: Path) -> None:
    """Remove those of the same runtime and Spark, as they were once."""
    first = archive.stem.rpartition("-")[0]
    for old in archive.parent.glob(f"{first}-*.jsa"):
        old.unlink(missing_ok=True)
