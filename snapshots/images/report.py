"""What making an image, and loading snapshots from one, have come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReport:
    """An image that was made."""

    #: its name at the master
    image: str
    folder: str
    tables: tuple[str, ...]
    rows: int
    slices: int
    #: of all slices
    bytes: int
    #: the moment of the master that it shows, and its time
    position: str
    taken_at: datetime
    #: when the master's logs let go of it
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """A refresh group that was loaded from an image."""

    site: str
    group: str
    image: str
    #: by snapshot, how many rows of the image it has
    rows: Mapping[str, int]
    #: how many slices this call has loaded; an earlier one may have loaded others
    slices: int
    #: the moment of the master that the group shows, and its time
    position: str
    taken_at: datetime
    #: whether the master has said that its logs keep what has changed since; if it was
    #: away, the next refresh finds out, and compares all rows if they do not
    kept: bool
