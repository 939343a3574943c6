"""What a check of snapshots found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeVar

AnyKind = TypeVar("AnyKind", bound=Enum)
AnyReason = TypeVar("AnyReason", bound=Enum)

#: Stands before the number of the error that a parked change is.
ERROR = "error "


class Kind(Enum):
    """How a row differs."""

    #: the defining query has it, the snapshot does not
    MISSING = "missing"
    #: the snapshot has it, the defining query does not
    EXTRA = "extra"
    #: both have it, with other values
    DIFFERS = "differs"


class Reason(Enum):
    """Why a row differs; the first that applies, in this order."""

    #: a trigger, constraint or policy of the site refuses the master's row
    REFUSED = "refused here"
    #: a change of the site waits for its push, or for the master's answer
    PENDING = "pending"
    #: a change of the site is in the master's error queue
    PARKED = "parked"
    #: the row no longer belongs to the snapshot, and has to stay for now
    LEAVING = "leaving"
    #: a refresh left the row alone, and the next one looks at it again
    HELD_BACK = "held back"
    #: the master's row no longer belongs to the snapshot; the next refresh removes it
    OUTSIDE = "outside the subset"
    #: changed at the master, or answered by it, since the moment that the site shows
    IN_FLIGHT = "in flight"
    #: the logs cannot name all changes since that moment
    UNPROVEN = "cannot be told"
    #: none of these: the two sides have come apart
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row that is not the same at both sides.

    Values are texts as the database prints them; None is NULL. Long ones are cut, but
    not those of the key.
    """

    kind: Kind
    reason: Reason
    #: the columns that identify the row, with their values
    key: Mapping[str, str | None]
    #: the columns that differ; empty if a side lacks the row
    columns: tuple[str, ...] = ()
    #: values at the master and at the site: of these columns, or of the whole row
    master: Mapping[str, str | None] | None = None
    here: Mapping[str, str | None] | None = None
    #: what is known besides: the site's message, the number of an error
    detail: str | None = None
    #: the deferred transaction that explains it, and when that began
    transaction: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Generic[AnyKind, AnyReason]):
    """How many rows differ in one way, for one reason."""

    kind: AnyKind
    reason: AnyReason
    rows: int


def rows_of(counts: Iterable[Count[Any, Any]], reason: Enum | None = None) -> int:
    """How many rows differ, for whatever reason or for this one."""
    return sum(one.rows for one in counts if reason in (None, one.reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCheck:
    """One snapshot against its defining query."""

    name: str
    group: str
    #: its master site, and the table there
    master: str
    table: str
    #: the position of the master that the snapshot showed, and the moments at which the
    #: site and its master were read, each in its database's own transaction ids; None
    #: if the snapshot has not been loaded
    position: str | None
    moment_here: str | None
    moment_master: str | None
    #: how many rows the master and the site have, of those that were looked at
    rows_master: int
    rows_here: int
    #: exact, whatever the maximum of rows listed
    counts: tuple[Count[Kind, Reason], ...]
    #: unexplained ones first
    differences: tuple[Difference, ...]
    #: why unexplained differences could not be told from others, or why no row was
    #: compared; None if they could
    unproven: str | None
    #: columns of the master table that the snapshot does not have, so not compared
    not_carried: tuple[str, ...] = ()

    @property
    def compared(self) -> bool:
        """Whether its rows were compared; if not, `unproven` says why."""
        return self.moment_here is not None

    @property
    def equal(self) -> bool:
        """Whether its rows were compared, and none of them differs."""
        return self.compared and not self.counts

    @property
    def unexplained(self) -> int:
        """How many rows differ without a reason."""
        return self.rows(Reason.UNEXPLAINED)

    def rows(self, reason: Reason) -> int:
        """How many rows differ for a reason."""
        return rows_of(self.counts, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of a check."""

    site: str
    #: the condition and the columns that it was restricted to
    where: str | None
    columns: tuple[str, ...]
    #: how many rows of each snapshot it lists at most
    most: int
    snapshots: tuple[SnapshotCheck, ...]
    #: when it began, by the clock of the program
    at: datetime
    seconds: float
    #: refresh groups that were not compared because their master does not answer, with
    #: what was said of it
    away: Mapping[str, str] = field(default_factory=dict)
    #: the number under which the site keeps it; None if it was not saved
    run: int | None = None

    @property
    def equal(self) -> bool:
        """Whether all snapshots were compared, and no row of any differs."""
        return not self.away and all(one.equal for one in self.snapshots)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """The snapshots that are not loaded yet, or do not fit their table any more."""
        return tuple(one.name for one in self.snapshots if not one.compared)

    @property
    def differing(self) -> int:
        """How many rows differ, whatever the reason."""
        return sum(rows_of(one.counts) for one in self.snapshots)

    @property
    def unexplained(self) -> int:
        """How many rows differ without a reason."""
        return sum(one.unexplained for one in self.snapshots)

    @property
    def unproven(self) -> int:
        """How many rows differ where nothing can be proven."""
        return sum(one.rows(Reason.UNPROVEN) for one in self.snapshots)
