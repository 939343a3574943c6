"""The folder of an image while it is made: one process at a time, and nothing else."""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from snapshots.images import manifest
from snapshots.images.errors import ImageFolderUnusable

#: Says which images were begun there; the process that makes one has it locked.
UNFINISHED = "unfinished"

_OURS = re.compile(r"slice-\d{6,}\.copy\.zst|manifest\.json\.new|unfinished")


@contextmanager
def claimed(folder: Path, image_id: uuid.UUID) -> Iterator[list[uuid.UUID]]:
    """Have a folder for a new image while the block runs.

    Yields the ids of images that were broken off there, whose files are gone now.

    Raises:
        ImageFolderUnusable: it has an image, other files, or another process at work;
            or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(_free(folder) / UNFINISHED, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(folder, error) from None
    with os.fdopen(handle, "r+", encoding="ascii") as note:
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ImageFolderUnusable(
                f"Another process is making an image in {folder}."
            ) from None
        # The other process may have come to its end in between.
        _free(folder)
        left = note.read()
        _empty(folder)
        # The master may keep its logs for the former ones, until it hears of them.
        note.write(f"\n{image_id}\n")
        note.flush()
        try:
            yield _ids(left)
            (folder / UNFINISHED).unlink()
        except OSError as error:
            raise _unusable(folder, error) from None


def _unusable(folder: Path, error: OSError) -> ImageFolderUnusable:
    return ImageFolderUnusable(f"{folder}: {error.strerror or error}.")


def _free(folder: Path) -> Path:
    if (folder / manifest.NAME).exists():
        raise ImageFolderUnusable(f"{folder} has an image already.")
    others = sorted(p.name for p in folder.iterdir() if not _OURS.fullmatch(p.name))
    if others:
        raise ImageFolderUnusable(f"{folder} has other files: {', '.join(others[:3])}.")
    return folder


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != UNFINISHED:
            path.unlink()


def _ids(left: str) -> list[uuid.UUID]:
    """The ids in the note of former processes; the last may not be whole."""
    found = []
    for line in left.split():
        with suppress(ValueError):
            found.append(uuid.UUID(line))
    return found
