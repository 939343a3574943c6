"""What rectify plans, and what it has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from snapshots.check.report import Count, Kind, Reason, rows_of


class Reference(Enum):
    """Which side is right where both have a row."""

    MASTER = "master"
    SITE = "site"
    #: the one whose row was written last, by the commit times of both databases
    NEWEST = "newest"


class Extra(Enum):
    """What becomes of rows that the reference does not have."""

    DELETE = "delete"
    KEEP = "keep"
    #: the reference gets them
    MERGE = "merge"


class Missing(Enum):
    """What becomes of rows that only the reference has."""

    COPY = "copy"
    SKIP = "skip"


class Take(Enum):
    """Whose row both sides are to have; no row is one, too."""

    MASTER = "master"
    SITE = "site"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRow:
    """One row that differs without a reason, and whose both sides are to have.

    Values are texts as the database prints them; None is NULL. Long ones are cut, but
    not those of the key.
    """

    snapshot: str
    #: the columns that identify the row, with their values
    key: Mapping[str, str | None]
    take: Take
    #: how it differs; None in a plan that does not say so
    kind: Kind | None = None
    #: values at the master and at the site: of the columns that differ, or of the row
    master: Mapping[str, str | None] | None = None
    here: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """How many rows differ in one way, and whose both sides are to have."""

    kind: Kind
    take: Take
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRectified:
    """One snapshot: what was planned, and what was done."""

    name: str
    table: str
    #: exact, whatever the maximum of rows listed
    planned: tuple[Planned, ...]
    #: rows that differ for a reason, and take their course
    left: tuple[Count[Kind, Reason], ...]
    #: some of the rows that are planned
    rows: tuple[PlannedRow, ...] = ()
    #: how many rows a refresh was to read again, and calls were queued for the master
    asked: int = 0
    queued: int = 0
    #: of those that were to be mended, the rows that differ still, and why
    still: tuple[Count[Kind, Reason], ...] = ()

    @property
    def to_mend(self) -> int:
        """How many rows are to be mended."""
        return sum(one.rows for one in self.planned if one.take is not Take.NOTHING)

    @property
    def mended(self) -> int:
        """How many of the rows that were to be mended are equal now."""
        return self.to_mend - rows_of(self.still)


@dataclass(frozen=True, slots=True, kw_only=True)
class RectifyReport:
    """The result of rectifying."""

    site: str
    #: nothing was written
    dry_run: bool
    snapshots: tuple[SnapshotRectified, ...]
    #: snapshots that were not looked at, since no refresh has filled them yet
    not_loaded: tuple[str, ...]
    #: when it began, by the site's clock
    at: datetime
    seconds: float

    @property
    def to_mend(self) -> int:
        """How many rows are to be mended."""
        return sum(one.to_mend for one in self.snapshots)

    @property
    def mended(self) -> int:
        """How many rows were mended."""
        return sum(one.mended for one in self.snapshots)

    @property
    def unexplained(self) -> int:
        """How many rows that were to be mended differ still, without a reason."""
        return sum(rows_of(one.still, Reason.UNEXPLAINED) for one in self.snapshots)

    @property
    def waiting(self) -> int:
        """How many of them differ still, for a reason."""
        return self.to_mend - self.mended - self.unexplained

    @property
    def unproven(self) -> int:
        """How many rows differ where nothing can be proven."""
        return sum(rows_of(one.left, Reason.UNPROVEN) for one in self.snapshots)
