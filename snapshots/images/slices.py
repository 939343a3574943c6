"""Slices of an image: rows written to files, and verified while they are read."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from sites.transfer import transport
from snapshots.images.errors import ImageDamaged, ImageRowsRefused
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


@contextmanager
def opened(folder: Path, one: Slice) -> Iterator[Iterator[bytes]]:
    """The rows of a slice, in pieces that `sites.transfer.transport.copy_pieces` takes.

    What the block has read counts only once it is over: then it is compared with what
    was written. So nothing else is written to a table if the file is replaced, or
    written again, while it is read.

    Raises:
        ImageDamaged: the file is not what was written, or cannot be read.
        ImageRowsRefused: it is, and a database could not hold one of its rows.
    """
    path = folder / one.file
    try:
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, one, error) from None
    with file:
        summed = _Summed(file)
        try:
            yield _pieces(summed)
        except Exception as error:
            # A database may refuse what a damaged file has in the place of rows.
            summed.refuse_other(path, one)
            if isinstance(error, DBAPIError) and sqlstate.caused_by_data(error):
                raise ImageRowsRefused(
                    f"The site cannot hold rows of {path}: {sqlstate.message(error)}",
                    file=one.file,
                ) from error
            raise
        summed.refuse_other(path, one)


def _unreadable(path: Path, one: Slice, error: OSError) -> ImageDamaged:
    return ImageDamaged(f"{path} cannot be read: {error.strerror}.", file=one.file)


def _pieces(file: _Summed) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as unpacked:
        while piece := unpacked.read(PIECE):
            yield piece


class _Summed(io.RawIOBase):
    """Reads a file, and sums up what it has read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum, self._bytes = hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self._sum.update(data)
        self._bytes += len(data)
        return data

    def refuse_other(self, path: Path, one: Slice) -> None:
        """Read what is left of the file, and refuse it unless it is this slice.

        Raises:
            ImageDamaged.
        """
        try:
            while self._bytes <= one.bytes and self.read(PIECE):
                pass
        except OSError as error:
            raise _unreadable(path, one, error) from None
        if (self._bytes, self._sum.hexdigest()) != (one.bytes, one.sha256):
            raise ImageDamaged(f"{path} is not what was written.", file=one.file)
