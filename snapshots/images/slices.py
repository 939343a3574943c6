"""Slices of an image: rows written to files, and read once these are verified."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from sqlalchemy import Connection

from sites.transfer import transport
from snapshots.images.errors import ImageDamaged
from snapshots.images.manifest import Slice, slice_name

#: How many slices are written or loaded at a time, each over its own connection.
AT_ONCE = 2

#: How many bytes are read of a file at a time.
PIECE = 2**20


def write(folder: Path, number: int, source: Connection, query: str) -> Slice:
    """Write the rows of a query to a file, and wait until it is on the disk.

    Parameters:
        number: of the slice, which names the file.
    """
    path = folder / slice_name(number)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.CompressedOutputStream(file, "zstd") as packed,
    ):
        rows = transport.copy_out(source, query, packed.write)
    with path.open("rb+") as written:
        os.fsync(written.fileno())
    return Slice(number=number, rows=rows, bytes=path.stat().st_size, sha256=_sum(path))


def verify(folder: Path, one: Slice) -> None:
    """Make sure that a file is what was written.

    Raises:
        ImageDamaged: it is not, or cannot be read.
    """
    path = folder / one.file
    try:
        same = path.stat().st_size == one.bytes and _sum(path) == one.sha256
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}."
        raise ImageDamaged(said, file=one.file) from None
    if not same:
        raise ImageDamaged(f"{path} is not what was written.", file=one.file)


def pieces(folder: Path, one: Slice) -> Iterator[bytes]:
    """The rows of a slice, as `sites.transfer.transport.copy_pieces` takes them."""
    with (
        pa.OSFile(str(folder / one.file), "rb") as file,
        pa.CompressedInputStream(file, "zstd") as unpacked,
    ):
        while piece := unpacked.read(PIECE):
            yield piece


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
