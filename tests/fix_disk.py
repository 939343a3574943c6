"""A small disk for tests: a filesystem that can be filled, and freed again."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


class Disk:
    """A filesystem in memory of a fixed size."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        size = f"size={megabytes}m,mode=755"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder],
            check=True,
            capture_output=True,
        )

    def fill(self, *, but: int = 0) -> None:
        """Leave no room, or a few bytes."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass
        if but:
            with self._ballast.open("ab") as file:
                file.truncate(max(file.tell() - but, 0))

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Take the filesystem away."""
        subprocess.run(["umount", "--lazy", self.folder], check=True)
        self.folder.rmdir()


@pytest.fixture
def small_disk() -> Iterator[Disk]:
    """A filesystem of 200 MB; mounting one takes root's rights."""
    folder = Path(tempfile.mkdtemp(prefix="snaptide-disk-"))
    try:
        disk = Disk(folder, 200)
    except (OSError, subprocess.CalledProcessError) as error:
        folder.rmdir()
        pytest.skip(f"cannot mount a small filesystem here: {error}")
    yield disk
    disk.close()
