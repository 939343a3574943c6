"""Spark's Java runtime starts with our options, unless users give some."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from snapshots.spark import lean

PROGRAM = """
import json, sys, threading
from snapshots.spark import lean, session

session.session(**json.loads(sys.argv[1]))
(jvm,) = lean.runtimes()
classes = session._folder() / "classes"
if classes.exists():
    # Few take less time, and Java goes on writing to the other file.
    few = classes.read_text().splitlines(keepends=True)[:1000]
    classes.unlink()
    classes.write_text("".join(few))
stopped = threading.Event()
stopped.set()
print(json.dumps({
    "options": jvm.cmdline(),
    "mapped": [one.path for one in jvm.memory_maps()],
    "kept": [session.keep_classes(stopped), session.keep_classes(threading.Event())],
}))
"""

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def started(cache: Path, **settings: str) -> Any:
    """What a session says of its runtime, in a process without the tests' options."""
    given = {k: v for k, v in os.environ.items() if k != "PYSPARK_SUBMIT_ARGS"}
    where = {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(settings)],
        env={**given, **where},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def archives(cache: Path) -> list[Path]:
    return [*cache.rglob("*.jsa")]


def test_later_sessions_share_the_classes_of_the_first(cache: Path) -> None:
    first = started(cache)
    few = (os.cpu_count() or 1) <= lean.FEW
    assert ("-XX:+UseSerialGC" in first["options"]) == few
    assert first["kept"] == [False, True]
    (archive,) = archives(cache)
    # Nothing else is left behind.
    assert {one.name for one in archive.parent.iterdir()} == {"bin", archive.name}
    later = started(cache)
    assert f"-XX:SharedArchiveFile={archive}" in later["options"]
    assert str(archive) in later["mapped"]
    assert later["kept"] == [False, False]


def test_options_of_users_take_the_place_of_ours(cache: Path) -> None:
    theirs = "-XX:+UseParallelGC"
    # What the second compiler costs never comes back in so short a life.
    given = {"spark.driver.extraJavaOptions": f"{theirs} -XX:TieredStopAtLevel=1"}
    options = started(cache, **given)["options"]
    assert theirs in options
    assert not any("SerialGC" in one or "Class" in one for one in options)
    assert not archives(cache)


def test_only_the_newest_archive_of_a_runtime_and_spark_stays(tmp_path: Path) -> None:
    new, other = tmp_path / "spark-aa-2.jsa", tmp_path / "spark-bb-1.jsa"
    for one in (tmp_path / "spark-aa-1.jsa", new, other):
        one.touch()
    lean.remove_older(new)
    assert {one.name for one in tmp_path.iterdir()} == {other.name}
