"""The work of a snapshot site: defining queries, refresh, refresh groups."""

from snapshots.create import create
from snapshots.drop import drop
from snapshots.listing import describe_snapshot, list_snapshots
from snapshots.propagation import PropagationReport, alter_propagation
from snapshots.refresh import refresh
from snapshots.reports import (
    CreateReport,
    RefreshReport,
    SnapshotDescription,
    SnapshotReport,
)

__all__ = [
    "CreateReport",
    "PropagationReport",
    "RefreshReport",
    "SnapshotDescription",
    "SnapshotReport",
    "alter_propagation",
    "create",
    "describe_snapshot",
    "drop",
    "list_snapshots",
    "refresh",
]
