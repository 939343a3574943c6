"""Slices of an image: rows written to files, and read once these are verified."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
from sqlalchemy import Connection

from sites.transfer import transport
from snapshots.images.errors import ImageDamaged
from snapshots.images.manifest import Slice, slice_name

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: How many slices are written or loaded at a time, each over its own connection.
AT_ONCE = 2

#: How many bytes are compressed at a time, or read of a file.
PIECE = 2**20


def write(folder: Path, number: int, source: Connection, query: str) -> Slice:
    """Write the rows of a query to a file, and wait until it is on the disk.

    Parameters:
        number: of the slice, which names the file.
    """
    path = folder / slice_name(number)
    with path.open("wb") as file:
        frames = _Frames(file)
        with io.BufferedWriter(frames, PIECE) as packed:
            rows = transport.copy_out(source, query, packed.write)
        file.flush()
        os.fsync(file.fileno())
    return Slice(
        number=number,
        rows=rows,
        bytes=path.stat().st_size,
        sha256=frames.sum.hexdigest(),
    )


class _Frames(io.RawIOBase):
    """Compresses what it is given, each time by itself, and sums up what it writes.

    One frame of zstd after the other is read as one. To compress a piece at once takes
    less time than to add to one frame.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._codec = pa.Codec("zstd")
        self.sum = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        packed = self._codec.compress(data, asbytes=True)
        self.sum.update(packed)
        self._file.write(packed)
        return memoryview(data).nbytes


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
