"""Reports that the operator's verbs on snapshots return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from pydantic import TypeAdapter

from deferred import PushReport
from sites.words import counted, does


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReport:
    """A snapshot as it was created."""

    snapshot: str
    group: str
    master: str
    table: str
    columns: tuple[str, ...]
    identity: tuple[str, ...]
    condition: str | None
    updatable: bool
    #: what becomes of rows that leave the condition: drain, ...
    leaving: str
    #: by column, how it gets a value that an insert at the site does not give
    numbers: Mapping[str, str]
    #: parts of the master table that the snapshot lacks, each with the reason
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTable:
    """Another table that a snapshot's condition asks, whose log its refresh reads."""

    table: str
    #: the columns of a row, and the key of the table that they are compared with
    columns: tuple[str, ...]
    key: tuple[str, ...]
    #: a row belongs only if it finds a row there
    required: bool
    #: how many rows of the snapshot look for one of these, as the site's statistics
    #: estimate it; None if they do not say
    rows_each: float | None
    #: what the condition asks about the row that is found
    asks: tuple[AskedTable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDescription:
    """A snapshot, for lists and status."""

    name: str
    group: str
    master: str
    table: str
    columns: tuple[str, ...]
    identity: tuple[str, ...]
    condition: str | None
    updatable: bool
    #: its changes go to the master in the user's own transaction
    synchronous: bool
    #: what becomes of rows that leave the condition: drain, ...
    leaving: str
    loaded: bool
    last_method: str | None
    last_refresh: datetime | None
    #: calls that the master has not answered; 0 for a read-only snapshot
    undelivered_calls: int
    #: rows that have left the snapshot and are kept at the site
    kept: int
    #: the moment of the master that it shows; None before its first load
    position: str | None = None
    #: why it stays behind its group, with the code; None if it shows the same moment
    behind: str | None = None
    #: what to do then
    todo: str | None = None
    #: about how many rows it has, as the site's statistics say; None if they do not
    rows: int | None = None
    #: the other tables that its condition asks
    asks: tuple[AskedTable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsReport:
    """The columns that a snapshot has now."""

    snapshot: str
    group: str
    columns: tuple[str, ...]
    condition: str | None
    #: transactions that were pushed first
    pushed: int = 0
    #: rows that got another value in new columns; None if the next refresh compares all
    #: rows for that
    filled: int | None = None
    #: what the site does not have of new columns, each with the reason
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteColumns:
    """What became of a snapshot when the columns of all of a table were altered."""

    site: str
    snapshot: str
    #: done; already, if it had the columns; refused; away, if its site was not reached
    state: str
    #: the error's code and message, if it is refused or away
    code: str | None = None
    why: str = ""
    #: those that it has now; empty if it is refused or away
    columns: tuple[str, ...] = ()
    #: transactions that were pushed first
    pushed: int = 0
    #: as in `ColumnsReport`
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotShape:
    """A snapshot in a shape of its master table, and what waits for it."""

    site: str
    snapshot: str
    #: calls that the master has not answered, as far as known; None if it is read-only,
    #: or its site is away
    waiting: int | None = None
    #: transactions of its site, parked at the master, that may change the table
    parked: int = 0
    #: why the site did not answer
    why: str = ""
    #: it follows `masters.execute_ddl`; not if the site's publication has no DDL
    follows: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeLens:
    """A lens: columns of a master table that take the place of others."""

    #: the old columns, as they were called
    gone: tuple[str, ...]
    #: by new column, the expression that makes it
    sets: Mapping[str, str]
    #: by old column, the expression that makes it
    backs: Mapping[str, str]
    #: the old columns are gone
    in_effect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedShape:
    """A lens that was declared."""

    table: str
    lens: ShapeLens
    #: sites that did not answer, so that it is not known whether their conditions use
    #: its columns
    away: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A set of columns in which sites show a master table."""

    table: str
    #: in this list, the oldest first; None for snapshots whose sites are away
    #: or refuse
    number: int | None
    #: by the sites' names
    columns: tuple[str, ...] = ()
    #: what the master has otherwise; empty if this is the master's own shape
    differs: tuple[str, ...] = ()
    snapshots: tuple[SnapshotShape, ...] = ()
    #: those that apply to what its sites change; of the master's own shape, all
    lenses: tuple[ShapeLens, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeDifference:
    """Something that a master table has otherwise than its snapshot."""

    snapshot: str
    table: str
    #: as "column gate"
    what: str
    differs: str
    #: the command, or the statement at the site, that settles it
    todo: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A changed row of a table that the condition asks, with which rows leave."""

    table: str
    #: its key as the database prints it, with commas between its parts; None for all
    #: others of the table
    key: str | None
    #: how many rows leave the snapshot with it
    rows: int


def reasons(because: Sequence[Cause]) -> str:
    """Why rows leave, to follow a verb; empty if nothing is known."""
    tables: dict[str, list[str]] = {}
    for one in because:
        tables.setdefault(one.table, []).append(one.key or "others")
    said = (f"{table} {_listed(keys)}" for table, keys in tables.items())
    return f" because {' and '.join(said)} changed" if tables else ""


def _listed(keys: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(keys[:-1]), keys[-1]]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """The result of a refresh for one snapshot."""

    name: str
    #: load, fast or complete
    method: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    #: those of them that the master still has: they no longer belong to the snapshot
    left: int = 0
    #: of a fast refresh: rows of other tables that changed so that these left, or will,
    #: the one with most of them first
    because: tuple[Cause, ...] = ()
    #: transactions with changes of the snapshot that were withdrawn, because rows left
    withdrawn: int = 0
    #: rows that are to leave and stay for now, by what holds them back
    staying: Mapping[str, int] = field(default_factory=dict)
    #: rows that differ and were left alone; the next refresh looks again
    held_back: int = 0
    #: those of them that a trigger or constraint at the site refuses, by its message
    refused: Mapping[str, int] = field(default_factory=dict)
    #: keys that were compared; None if all were
    window_keys: int | None = None

    @property
    def moves(self) -> str:
        """One line on the rows that left and those that are to leave; else empty.

        As "412 rows left because customer 7 changed; 3 stay: 2 pending, 1 locked".
        """
        said = counted(self.left, "row") + " left" if self.left or self.staying else ""
        said += reasons(self.because) if said else ""
        if self.staying:
            held = ", ".join(f"{rows:,} {by}" for by, rows in self.staying.items())
            staying = sum(self.staying.values())
            said += f"; {staying:,} {does(staying, 'stay')}: {held}"
        if self.withdrawn:
            said += f"; {counted(self.withdrawn, 'transaction', 'were')} withdrawn"
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class WayTaken:
    """The way by which a refresh compared a snapshot, and what it has cost."""

    #: fast, by the keys of the snapshot log; sums, of all rows at each side; complete
    way: str
    #: how many keys were compared; if not fast, about how many rows the master table
    #: has, or None if the master has no statistics of it
    size: int | None
    #: how long it took to read and compare the rows
    seconds: float
    #: by way that could be taken, what was expected; empty unless the group's contract
    #: asks for the cheapest way
    estimates: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """A snapshot that a refresh of its group left at the moment that it showed."""

    name: str
    code: str
    why: str
    hint: str
    #: the snapshot that cannot be refreshed, if this one only depends on it
    depends_on: str | None
    #: the moment of the master that it shows; None if it was never filled
    position: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshReport:
    """The result of a refresh."""

    site: str
    group: str
    #: those that show the new moment
    snapshots: tuple[SnapshotReport, ...]
    #: the moment of the master that the group shows now
    position: str
    seconds: float
    pushed: PushReport | None
    #: why the push before it stopped at a table, with the code; None if it did not
    not_pushed: str | None = None
    #: those that could not be refreshed, first, and those that depend on these
    behind: tuple[LeftBehind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRefreshed:
    """What became of a group when those of many sites were refreshed."""

    site: str
    #: None if the site's groups could not be read
    group: str | None = None
    #: done; refused; away, if the site or its master was not reached
    state: str
    #: the error's code and message, and what to do, if it is refused or away
    code: str | None = None
    why: str = ""
    hint: str = ""
    #: that of the refresh, if it is done
    report: RefreshReport | None = None


def as_json(report: RefreshReport) -> object:
    """A report as JSON's types, for a program that waits for it elsewhere."""
    return _adapter().dump_python(report, mode="json")


def of_json(report: object) -> RefreshReport:
    """The report that `as_json` wrote."""
    return _adapter().validate_python(report, strict=False)


@cache
def _adapter() -> TypeAdapter[RefreshReport]:
    return TypeAdapter(RefreshReport)
