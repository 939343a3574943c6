"""Getting a folder of files for the first time, and its directory.

The limit is a plain copy as rsync makes one: all files go as one stream over a socket
of the machine to a process that writes them, and all is on the disk in the end, as it
is after a sync, by one `sync` of the system. (A flush of each file would take four
times as long as one for all.) A first load writes the content three times, to the log
of the server, to the tables and to the directory, so it cannot be as fast.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import folders
import snapshots
from benchmarks.pairs import Result, Side, compared, seconds
from benchmarks.setting import directory, tidy
from sites import Directory

#: Bytes of a file.
SIZE = 100 * 1024


def run(files: int) -> list[Result]:
    """The first load of both snapshots and the first sync, against a plain copy."""
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
                    before=lambda: _empty(sites, target),
                ),
            ],
            rounds=3 if files > 1000 else 5,
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


def _empty(sites: Directory, target: Path) -> None:
    """Empty the directory, and leave nothing of the round before to be written."""
    shutil.rmtree(target, ignore_errors=True)
    tidy(sites["hq"])
    os.sync()


def _forget(sites: Directory, target: Path) -> None:
    jfk = sites["jfk"]
    _empty(sites, target)
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
    target.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        sending = socket.create_connection(server.getsockname())
        receiving, _ = server.accept()
    with sending, receiving:
        sender = subprocess.Popen(
            ["tar", "-C", source, "-c", "."], stdout=sending.fileno()
        )
        sending.close()
        subprocess.run(
            ["tar", "-C", target, "-x"], stdin=receiving.fileno(), check=True
        )
        assert sender.wait() == 0
    os.sync()
