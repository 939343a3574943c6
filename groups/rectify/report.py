"""What rectify plans for the masters of a group, and what it has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from groups.check.report import CheckReason
from snapshots.check.report import Count, Kind, rows_of


class RectifyExtra(Enum):
    """What becomes of rows that the reference does not have."""

    DELETE = "delete"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class RectifyRow:
    """One row of a target that differs from the reference's without a reason.

    Values are texts as the database prints them, cut if they are long; None is NULL.
    """

    #: the columns of the primary key, with their values
    key: Mapping[str, str | None]
    #: whether the target lacks it, has it alone, or has other values
    kind: Kind
    #: whether it is to be mended
    mend: bool
    #: values at the reference and at the target: of the columns that differ, or of the
    #: row; None: no row
    reference: Mapping[str, str | None] | None
    target: Mapping[str, str | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RectifyPlanned:
    """How many rows differ in one way without a reason."""

    kind: Kind
    #: whether they are to be mended
    mend: bool
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRectified:
    """One table of one target: what was planned, and what was done."""

    target: str
    table: str
    #: the master at which corrections are queued
    sender: str
    #: exact, whatever the maximum of rows listed
    planned: tuple[RectifyPlanned, ...]
    #: rows that differ for a reason, and take their course
    left: tuple[Count[Kind, CheckReason], ...]
    #: some of the rows that are planned
    rows: tuple[RectifyRow, ...] = ()
    #: how many corrections were queued
    queued: int = 0
    #: of those that were to be mended, the rows that differ still, and why
    still: tuple[Count[Kind, CheckReason], ...] = ()

    @property
    def to_mend(self) -> int:
        """How many rows are to be mended."""
        return sum(one.rows for one in self.planned if one.mend)

    @property
    def mended(self) -> int:
        """How many of the rows that were to be mended are equal now."""
        return self.to_mend - rows_of(self.still)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRectifyReport:
    """The result of rectifying masters of a group."""

    group: str
    reference: str
    #: the masters that were compared with the reference
    targets: tuple[str, ...]
    #: the others, with the reason why not
    left_out: Mapping[str, str]
    #: masters of the group that do not answer
    away: tuple[str, ...]
    #: nothing was written
    dry_run: bool
    tables: tuple[TableRectified, ...]
    #: when it began, by the clock of the program
    at: datetime
    seconds: float

    @property
    def to_mend(self) -> int:
        """How many rows are to be mended."""
        return sum(one.to_mend for one in self.tables)

    @property
    def mended(self) -> int:
        """How many rows were mended."""
        return sum(one.mended for one in self.tables)

    @property
    def unexplained(self) -> int:
        """How many rows that were to be mended differ still, without a reason."""
        return sum(rows_of(one.still, CheckReason.UNEXPLAINED) for one in self.tables)

    @property
    def waiting(self) -> int:
        """How many of them differ still, for a reason."""
        return self.to_mend - self.mended - self.unexplained

    @property
    def unproven(self) -> int:
        """How many rows differ where nothing can be proven."""
        return sum(rows_of(one.left, CheckReason.UNPROVEN) for one in self.tables)
