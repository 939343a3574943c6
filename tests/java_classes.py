"""Keeps Spark's classes for the Java runtimes that tests start, as `python -m` of this.

A runtime that maps them starts, and compares for the first time, in two thirds of the
processor time. Snaptide does the same for its workers (`snapshots.spark.lean`); here
the runtimes have options of their own, and an archive fits only these.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

from snapshots.differences import warming
from tests.fix_spark import end_jvm, submitted

#: Comparisons of all shapes that `warming` has.
_COMPARISONS = 8


def make(archive: Path) -> None:
    """Begin to write the archive, by a process of its own."""
    command = [sys.executable, "-m", __name__, str(archive)]
    root = Path(__file__).resolve().parent.parent
    subprocess.Popen(
        command,
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _write(archive: Path) -> None:
    made = archive.with_suffix(f".{os.getpid()}")
    # It would list each class of a signed or very old package.
    quiet = "-Xlog:cds*=off"
    os.environ["PYSPARK_SUBMIT_ARGS"] = submitted(
        f"-XX:ArchiveClassesAtExit={made}", quiet
    )
    try:
        for _ in islice(warming.comparisons(), _COMPARISONS):
            pass
        archive.parent.mkdir(exist_ok=True)
        # The runtime writes it when it ends.
        end_jvm()
        made.replace(archive)
    finally:
        made.unlink(missing_ok=True)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
