"""The work of a master: snapshot logs, apply, conflict detection and resolution."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from masters.errors import (
        BadRulebook,
        CannotLease,
        CannotLogTable,
        DdlRefused,
        InvalidNetChange,
        InvalidParameter,
        MethodDoesNotFit,
        MissingParameter,
        NoPrimaryKey,
        NoSnapshotLog,
        NoSuchRecord,
        NumbersUsedUp,
        PartUnrecorded,
        RuleError,
        RuleExists,
        RulesMoved,
        SequenceBehind,
        SnapshotLogExists,
        SnapshotLogInUse,
        TableAltered,
        UnknownColumn,
        UnknownColumnGroup,
        UnknownConstraint,
        UnknownMethod,
        UnknownParameter,
        UnknownRoutine,
        UnknownRule,
        UnusableRoutine,
        WrongColumnCount,
        WrongColumnType,
    )
    from masters.log.create_all import LogOfTable, create_snapshot_logs
    from masters.log.execute_ddl import DdlReport, PastDdl, execute_ddl, list_ddl
    from masters.log.purge import LogPurgeReport, purge_snapshot_logs
    from masters.log.snapshot_log import (
        SnapshotLog,
        create_snapshot_log,
        drop_snapshot_log,
        list_snapshot_logs,
        show_snapshot_log,
    )
    from masters.log.whole import RepairedLog, repair_snapshot_logs
    from masters.numbers.listing import LeasedNumbers, list_leases
    from masters.resolution.conflict import Conflict, Kind
    from masters.resolution.method import Method
    from masters.resolution.takes import Takes
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
    from masters.rules.rule import Rule
    from masters.rules.table_rules import Comparison, TableRules

__all__ = [
    "BadRulebook",
    "CannotLease",
    "CannotLogTable",
    "Comparison",
    "Conflict",
    "DdlRefused",
    "DdlReport",
    "InvalidNetChange",
    "InvalidParameter",
    "Kind",
    "LeasedNumbers",
    "LogOfTable",
    "LogPurgeReport",
    "Method",
    "MethodDoesNotFit",
    "MissingParameter",
    "NoPrimaryKey",
    "NoSnapshotLog",
    "NoSuchRecord",
    "NumbersUsedUp",
    "PartUnrecorded",
    "PastDdl",
    "RepairedLog",
    "Rule",
    "RuleError",
    "RuleExists",
    "RulesMoved",
    "SequenceBehind",
    "SnapshotLog",
    "SnapshotLogExists",
    "SnapshotLogInUse",
    "TableAltered",
    "TableRules",
    "Takes",
    "UnknownColumn",
    "UnknownColumnGroup",
    "UnknownConstraint",
    "UnknownMethod",
    "UnknownParameter",
    "UnknownRoutine",
    "UnknownRule",
    "UnusableRoutine",
    "WrongColumnCount",
    "WrongColumnType",
    "add_delete_resolution",
    "add_unique_resolution",
    "add_update_resolution",
    "compare_old_values",
    "create_snapshot_log",
    "create_snapshot_logs",
    "drop_delete_resolution",
    "drop_snapshot_log",
    "drop_unique_resolution",
    "drop_update_resolution",
    "execute_ddl",
    "list_ddl",
    "list_leases",
    "list_rules",
    "list_snapshot_logs",
    "purge_snapshot_logs",
    "repair_snapshot_logs",
    "send_old_values",
    "set_column_group",
    "set_row_version",
    "show_snapshot_log",
]

face(__name__)
