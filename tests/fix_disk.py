"""A small disk for tests: one that can be filled, and freed again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil
import pytest


class Disk(Protocol):
    """Where a server of the test's own has its data."""

    folder: Path
    #: what the server says when there is no room
    says: str

    def fill(self) -> None:
        """Leave no room."""

    def free(self) -> None:
        """Make room again."""

    def close(self) -> None:
        """Take the disk away."""


class Filesystem:
    """A filesystem in memory of a fixed size; mounting it takes root's rights."""

    says = "No space left on device"

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        size = f"size={megabytes}m,mode=755"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder],
            check=True,
            capture_output=True,
        )

    def fill(self) -> None:
        """Write until nothing more goes in."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass

    def free(self) -> None:
        """Remove what was written."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Take the filesystem away."""
        subprocess.run(["umount", "--lazy", self.folder], check=True)
        self.folder.rmdir()


class Limit:
    """A limit to the files of the server in a folder, where nothing may be mounted.

    The server cannot extend a file beyond it, be it of a table or of its log.
    """

    says = "File too large"
    #: Less than the server's log needs before it begins its next file.
    BYTES = 1 << 16

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)

    def fill(self) -> None:
        """Have no process of the server write behind the limit."""
        self._set(str(self.BYTES))

    def free(self) -> None:
        """Lift the limit; a server that is started later has none."""
        self._set("unlimited")

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)

    def _set(self, limit: str) -> None:
        for file in self.folder.glob("*/data/postmaster.pid"):
            with suppress(psutil.NoSuchProcess):
                # The first, so that nobody is born without the limit.
                server = psutil.Process(int(file.read_text().split()[0]))
                _limit(server, limit)
                for one in server.children():
                    with suppress(psutil.NoSuchProcess):
                        _limit(one, limit)


def _limit(process: psutil.Process, size: str) -> None:
    user, group = process.uids().real, process.gids().real
    # Its own account may always do so, and even root perhaps not.
    account = {} if user == os.getuid() else {"user": user, "group": group}
    command = ["prlimit", f"--pid={process.pid}", f"--fsize={size}:"]
    done = subprocess.run(command, cwd="/", capture_output=True, **account)  # type: ignore[call-overload]
    # It may have ended meanwhile.
    assert not done.returncode or not process.is_running(), done.stderr


@pytest.fixture
def small_disk() -> Iterator[Disk]:
    """A disk of 200 MB, or what is as full as one where none can be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="snaptide-disk-"))
    disk: Disk
    try:
        disk = Filesystem(folder, 200)
    except (OSError, subprocess.CalledProcessError):
        disk = Limit(folder)
    yield disk
    disk.close()
