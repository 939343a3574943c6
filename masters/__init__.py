"""The work of a master: snapshot logs, apply, conflict detection and resolution."""

from masters.log.purge import purge_snapshot_logs
from masters.log.snapshot_log import (
    create_snapshot_log,
    drop_snapshot_log,
    list_snapshot_logs,
    show_snapshot_log,
)
from masters.rules import (
    add_delete_resolution,
    add_unique_resolution,
    add_update_resolution,
    compare_old_values,
    drop_delete_resolution,
    drop_unique_resolution,
    drop_update_resolution,
    list_rules,
    send_old_values,
    set_column_group,
    set_row_version,
)

__all__ = [
    "add_delete_resolution",
    "add_unique_resolution",
    "add_update_resolution",
    "compare_old_values",
    "create_snapshot_log",
    "drop_delete_resolution",
    "drop_snapshot_log",
    "drop_unique_resolution",
    "drop_update_resolution",
    "list_rules",
    "list_snapshot_logs",
    "purge_snapshot_logs",
    "send_old_values",
    "set_column_group",
    "set_row_version",
    "show_snapshot_log",
]
