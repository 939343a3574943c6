"""What a check of a replication group found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from snapshots.check.report import Count, rows_of


class CheckKind(Enum):
    """How the masters differ in a row."""

    #: some masters lack it
    MISSING = "missing"
    #: all have it, with other values
    DIFFERS = "differs"


class CheckReason(Enum):
    """Why they differ; the first that applies, in this order."""

    #: a change that has come to one master has not come to another yet
    IN_FLIGHT = "in flight"
    #: a change is in the error queue of a master
    PARKED = "parked"
    #: listed at a master: an error was edited or deleted there, or it was restored
    DECIDED = "decided"
    #: a change that explains it may be where it cannot be read
    UNPROVEN = "cannot be told"
    #: none of these: the masters have come apart
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDifference:
    """One row that is not the same at all masters.

    Values are texts as the database prints them, cut if they are long; None is NULL.
    """

    kind: CheckKind
    reason: CheckReason
    #: the columns of the primary key, with their values
    key: Mapping[str, str | None]
    #: the columns that differ between the masters that have the row
    columns: tuple[str, ...]
    #: by master, a letter; masters with the same letter have the same row. None: no row
    masters: Mapping[str, str | None]
    #: by letter, the values of these columns, or of the whole row
    images: Mapping[str, Mapping[str, str | None]]
    #: what is known besides: where the change is missing, the number of an error
    detail: str | None = None
    #: the transaction that explains it, and when that began
    transaction: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """One table at all masters that were compared."""

    table: str
    #: by master, how many rows it has, of those that were looked at
    rows: Mapping[str, int]
    #: exact, whatever the maximum of rows listed
    counts: tuple[Count[CheckKind, CheckReason], ...]
    #: unexplained ones first
    differences: tuple[CheckDifference, ...]

    @property
    def equal(self) -> bool:
        """Whether no row differs."""
        return not self.counts

    def differing(self, reason: CheckReason) -> int:
        """How many rows differ for a reason."""
        return rows_of(self.counts, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCheckReport:
    """The result of a check of a group."""

    group: str
    #: the masters that were compared
    masters: tuple[str, ...]
    #: the others, with the reason why not
    left_out: Mapping[str, str]
    #: those of them that do not answer
    away: tuple[str, ...]
    #: the condition and the columns that it was restricted to
    where: str | None
    columns: tuple[str, ...]
    tables: tuple[TableCheck, ...]
    #: when it began, by the clock of the program
    at: datetime
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether no row of any table differs, and no master that is away was left out.

        Not if fewer than two masters were compared.
        """
        several = len(self.masters) > 1 and not self.away
        return several and all(one.equal for one in self.tables)

    @property
    def unexplained(self) -> int:
        """How many rows differ without a reason."""
        return self._rows(CheckReason.UNEXPLAINED)

    @property
    def unproven(self) -> int:
        """How many rows differ where nothing can be proven."""
        return self._rows(CheckReason.UNPROVEN)

    def _rows(self, reason: CheckReason) -> int:
        return sum(one.differing(reason) for one in self.tables)
