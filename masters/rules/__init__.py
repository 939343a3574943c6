"""Defining how conflicts are found and settled: comparisons, column groups, rules."""

from masters.rules.comparison import (
    compare_old_values as compare_old_values,
    send_old_values as send_old_values,
    set_row_version as set_row_version,
)
from masters.rules.define import (
    add_delete_resolution as add_delete_resolution,
    add_unique_resolution as add_unique_resolution,
    add_update_resolution as add_update_resolution,
    drop_delete_resolution as drop_delete_resolution,
    drop_unique_resolution as drop_unique_resolution,
    drop_update_resolution as drop_update_resolution,
    list_rules as list_rules,
    set_column_group as set_column_group,
)
from masters.rules.rule import Rule as Rule
from masters.rules.table_rules import Comparison as Comparison, TableRules as TableRules
