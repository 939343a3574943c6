"""The manifest of an image: what its files hold, and of which moment of which master.

It is written last, by renaming it into place: a folder without one has no whole image.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from masters.group_schema import SchemaVersion
from sites.names import QualifiedName
from sites.sessions.identity import Identity
from sites.tables.definitions import TypeDefinition
from sites.tables.indexes import Index
from sites.tables.table import Table
from snapshots.images.errors import ImageDamaged, NotAnImage

#: Of the files. A program reads the format that it writes, and no other.
FORMAT = 1

NAME = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A file of an image: rows of a table, as COPY prints them, compressed by zstd."""

    #: counted through the whole image
    number: int
    rows: int
    bytes: int
    sha256: str

    @property
    def file(self) -> str:
        """Its name in the folder."""
        return slice_name(self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A table that held rows of the master table."""

    oid: int
    name: QualifiedName
    #: as in `sites.conditions.ranges.Leaf`
    file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTable:
    """A table of an image, as it was at the master at the moment of the image."""

    table: Table
    #: the columns that the slices have, in their order
    columns: tuple[str, ...]
    #: as the master's catalog prints it; None for all rows
    condition: str | None
    identity: tuple[str, ...]
    with_rowid: bool
    indexes: tuple[Index, ...]
    types: tuple[TypeDefinition, ...]
    parts: tuple[Part, ...]
    schema_version: SchemaVersion | None
    slices: tuple[Slice, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows its slices hold."""
        return sum(one.rows for one in self.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All of an image but its rows."""

    id: uuid.UUID
    name: str
    master: Identity
    #: the moment of the master (`sites.capture.position`)
    position: str
    #: the time of that moment, by the master's clock
    taken_at: datetime
    expires_at: datetime
    #: of the master's database (`sites.tables.definitions.locale`)
    locale: str
    tables: tuple[ImageTable, ...]

    def of(self, table: QualifiedName) -> ImageTable | None:
        """The table of that name; None if the image does not have it."""
        found = (one for one in self.tables if one.table.qualified == table)
        return next(found, None)


_ADAPTER = TypeAdapter(Manifest)


def slice_name(number: int) -> str:
    """What the file of a slice is called."""
    return f"slice-{number:06}.copy.zst"


def write(folder: Path, image: Manifest) -> None:
    """Write the manifest, once all slices are on the disk."""
    made = _ADAPTER.dump_python(image, mode="json")
    whole = {"format": FORMAT, "sha256": _sum(made), "image": made}
    unfinished = folder / f"{NAME}.new"
    with unfinished.open("w", encoding="utf-8") as file:
        json.dump(whole, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(folder / NAME)
    sync(folder)


def read(folder: Path) -> Manifest:
    """Read the manifest of an image.

    Raises:
        NotAnImage: the folder has none, or one of another format.
        ImageDamaged: it is not what was written.
    """
    path = folder / NAME
    try:
        whole = json.loads(path.read_text("utf-8"))
        if whole["format"] != FORMAT:
            raise NotAnImage(f"{path} has format {whole['format']}, not {FORMAT}.")
        if whole["sha256"] != _sum(whole["image"]):
            raise ImageDamaged(f"{path} is not what was written.", file=NAME)
        return _ADAPTER.validate_python(whole["image"], strict=False)
    except OSError as error:
        raise NotAnImage(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, ValidationError):
        raise ImageDamaged(f"{path} is not what was written.", file=NAME) from None


def sync(folder: Path) -> None:
    """Have the names of files in a folder outlast a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def missing(folder: Path, slices: Sequence[Slice]) -> list[str]:
    """The files of these slices that a folder does not have."""
    return [one.file for one in slices if not (folder / one.file).is_file()]


def _sum(made: object) -> str:
    text = json.dumps(made, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
