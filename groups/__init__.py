"""Replication groups of several masters, and the paths between them."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from groups.check.report import (
        CheckCount,
        CheckDifference,
        CheckKind,
        CheckReason,
        GroupCheckReport,
        TableCheck,
    )
    from groups.check.run import check
    from groups.ddl import execute_ddl
    from groups.define import (
        add_master,
        add_table,
        create_group,
        drop_group,
        remove_master,
        remove_table,
    )
    from groups.define_paths import set_paths
    from groups.differences import Difference
    from groups.error_actions import (
        quiet_group,
        set_error_action,
        set_quiet,
        unquiet_group,
    )
    from groups.errors import (
        BadPaths,
        CannotDrain,
        CannotPrepare,
        CannotReplicate,
        CannotSwitch,
        CheckDisturbed,
        GroupBusy,
        GroupChanging,
        GroupError,
        GroupExists,
        MasterAnswers,
        MasterExists,
        MasterJoins,
        NoSuchGroup,
        NoSuchMaster,
        NotDefinitionSite,
        NotEmpty,
        NotQuiesced,
        StillMaster,
        TablesDiffer,
    )
    from groups.forget import forget_master
    from groups.group import Group, Master, Status, TableAdded, TargetType
    from groups.join import JoinReport, join_master
    from groups.leave import LeaveReport, leave_group
    from groups.paths import Path, chain, full_mesh, star, tree
    from groups.quiesce import SuspendReport, resume, suspend
    from groups.rectify.report import (
        GroupRectifyReport,
        RectifyExtra,
        RectifyLeft,
        RectifyPlanned,
        RectifyRow,
        TableRectified,
    )
    from groups.rectify.run import rectify
    from groups.relay.arrivals import Arrival
    from groups.relay.holds import QuietGroup
    from groups.relay.release import Unquieted
    from groups.show import (
        GroupReport,
        MasterReport,
        list_groups,
        masters_of_tables,
        show_group,
    )
    from groups.switch import SwitchReport, switch_master

__all__ = [
    "Arrival",
    "BadPaths",
    "CannotDrain",
    "CannotPrepare",
    "CannotReplicate",
    "CannotSwitch",
    "CheckCount",
    "CheckDifference",
    "CheckDisturbed",
    "CheckKind",
    "CheckReason",
    "Difference",
    "Group",
    "GroupBusy",
    "GroupChanging",
    "GroupCheckReport",
    "GroupError",
    "GroupExists",
    "GroupRectifyReport",
    "GroupReport",
    "JoinReport",
    "LeaveReport",
    "Master",
    "MasterAnswers",
    "MasterExists",
    "MasterJoins",
    "MasterReport",
    "NoSuchGroup",
    "NoSuchMaster",
    "NotDefinitionSite",
    "NotEmpty",
    "NotQuiesced",
    "Path",
    "QuietGroup",
    "RectifyExtra",
    "RectifyLeft",
    "RectifyPlanned",
    "RectifyRow",
    "Status",
    "StillMaster",
    "SuspendReport",
    "SwitchReport",
    "TableAdded",
    "TableCheck",
    "TableRectified",
    "TablesDiffer",
    "TargetType",
    "Unquieted",
    "add_master",
    "add_table",
    "chain",
    "check",
    "create_group",
    "drop_group",
    "execute_ddl",
    "forget_master",
    "full_mesh",
    "join_master",
    "leave_group",
    "list_groups",
    "masters_of_tables",
    "quiet_group",
    "rectify",
    "remove_master",
    "remove_table",
    "resume",
    "set_error_action",
    "set_paths",
    "set_quiet",
    "show_group",
    "star",
    "suspend",
    "switch_master",
    "tree",
    "unquiet_group",
]

face(__name__)
