"""Getting a folder of files for the first time, and its directory."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

import folders
import snapshots
from benchmarks.pairs import Result, Side, compared, seconds
from benchmarks.setting import directory
from sites import Directory

#: Bytes of a file.
SIZE = 100 * 1024


def run(files: int) -> list[Result]:
    """The first load of both snapshots and the first sync, against a plain copy.

    What is copied is on the disk in the end, as it is after a sync.
    """
    with directory("hq", "jfk") as sites, tempfile.TemporaryDirectory() as place:
        source = Path(place, "source")
        _write(source, files)
        folders.create(sites["hq"], "docs")
        folders.sync(sites["hq"], "docs", source)
        target = Path(place, "target")
        loaded, copied = seconds(
            [
                Side(
                    label="first load and sync",
                    run=lambda: _load(sites, target),
                    before=lambda: _forget(sites, target),
                ),
                Side(
                    label="plain copy",
                    run=lambda: _copy(source, target),
                    before=lambda: shutil.rmtree(target, ignore_errors=True),
                ),
            ]
        )
    name = f"{files:,} files of {SIZE // 1024} kB"
    return [
        compared(name, "first load and sync", "plain copy", loaded, copied, bar=2.5)
    ]


def _write(source: Path, files: int) -> None:
    drawn = random.Random(1)
    for number in range(files):
        file = source / str(number % 100) / f"{number}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(drawn.randbytes(SIZE))


def _forget(sites: Directory, target: Path) -> None:
    jfk = sites["jfk"]
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    there = {one.name for one in snapshots.list_snapshots(jfk)}
    for name in ("docs_chunk", "docs_entry"):
        if name in there:
            snapshots.drop(jfk, name)
    snapshots.create(jfk, "docs_entry", master="hq", group="docs", updatable=True)
    snapshots.create(
        jfk,
        "docs_chunk",
        master="hq",
        group="docs",
        follow=["docs_entry"],
        updatable=True,
    )


def _load(sites: Directory, target: Path) -> None:
    snapshots.refresh(sites["jfk"], "docs")
    folders.sync(sites["jfk"], "docs", target)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    os.sync()
