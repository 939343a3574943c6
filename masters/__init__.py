"""What a master does: snapshot logs, apply, conflict detection and resolution."""

from masters.purge import purge_snapshot_logs
from masters.snapshot_log import (
    create_snapshot_log,
    drop_snapshot_log,
    list_snapshot_logs,
    show_snapshot_log,
)

__all__ = [
    "create_snapshot_log",
    "drop_snapshot_log",
    "list_snapshot_logs",
    "purge_snapshot_logs",
    "show_snapshot_log",
]
