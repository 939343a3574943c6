"""Defining how conflicts are found and settled: comparisons, column groups, rules."""

from masters.rules.comparison import (
    compare_old_values,
    send_old_values,
    set_row_version,
)
from masters.rules.define import (
    add_delete_resolution,
    add_unique_resolution,
    add_update_resolution,
    drop_delete_resolution,
    drop_unique_resolution,
    drop_update_resolution,
    list_rules,
    set_column_group,
)
from masters.rules.rule import Rule
from masters.rules.table_rules import Comparison, TableRules

__all__ = [
    "Comparison",
    "Rule",
    "TableRules",
    "add_delete_resolution",
    "add_unique_resolution",
    "add_update_resolution",
    "compare_old_values",
    "drop_delete_resolution",
    "drop_unique_resolution",
    "drop_update_resolution",
    "list_rules",
    "send_old_values",
    "set_column_group",
    "set_row_version",
]
