"""Reports that the operator's verbs on snapshots return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from deferred import PushReport


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
    #: parts of the master table that the snapshot lacks, each with the reason
    left_out: tuple[str, ...]


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
    loaded: bool
    last_method: str | None
    last_refresh: datetime | None
    #: calls that the master has not answered; 0 for a read-only snapshot
    undelivered_calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """The result of a refresh for one snapshot."""

    name: str
    #: load, fast or complete
    method: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    #: rows that differ and were left alone; the next refresh looks again
    held_back: int = 0
    #: those of them that a trigger or constraint at the site refuses, by its message
    refused: Mapping[str, int] = field(default_factory=dict)
    #: keys that were compared; None if all were
    window_keys: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshReport:
    """The result of a refresh."""

    site: str
    group: str
    snapshots: tuple[SnapshotReport, ...]
    #: the moment of the master that the group shows now
    position: str
    seconds: float
    pushed: PushReport | None
