"""Replication groups of several masters, and the paths between them."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from groups.check.report import (
        CheckDifference as CheckDifference,
        CheckKind as CheckKind,
        CheckReason as CheckReason,
        GroupCheckReport as GroupCheckReport,
        TableCheck as TableCheck,
    )
    from groups.check.run import check as check
    from groups.ddl import execute_ddl as execute_ddl
    from groups.define import (
        add_master as add_master,
        add_table as add_table,
        create_group as create_group,
        drop_group as drop_group,
        remove_master as remove_master,
        remove_table as remove_table,
    )
    from groups.define_paths import set_paths as set_paths
    from groups.differences import Difference as Difference
    from groups.error_actions import (
        quiet_group as quiet_group,
        set_error_action as set_error_action,
        set_quiet as set_quiet,
        unquiet_group as unquiet_group,
    )
    from groups.errors import (
        BadPaths as BadPaths,
        CannotDrain as CannotDrain,
        CannotPrepare as CannotPrepare,
        CannotReplicate as CannotReplicate,
        CannotSwitch as CannotSwitch,
        CheckDisturbed as CheckDisturbed,
        DecidedElsewhere as DecidedElsewhere,
        GroupBusy as GroupBusy,
        GroupChanging as GroupChanging,
        GroupError as GroupError,
        GroupExists as GroupExists,
        MasterAnswers as MasterAnswers,
        MasterExists as MasterExists,
        MasterJoins as MasterJoins,
        MasterUnreadable as MasterUnreadable,
        NoSuchGroup as NoSuchGroup,
        NoSuchMaster as NoSuchMaster,
        NotDefinitionSite as NotDefinitionSite,
        NotEmpty as NotEmpty,
        NotQuiesced as NotQuiesced,
        StillMaster as StillMaster,
        TablesDiffer as TablesDiffer,
    )
    from groups.forget import forget_master as forget_master
    from groups.group import (
        Group as Group,
        Master as Master,
        Status as Status,
        TableAdded as TableAdded,
        TargetType as TargetType,
    )
    from groups.join import JoinReport as JoinReport, join_master as join_master
    from groups.leave import LeaveReport as LeaveReport, leave_group as leave_group
    from groups.paths import (
        Path as Path,
        chain as chain,
        full_mesh as full_mesh,
        star as star,
        tree as tree,
    )
    from groups.quiesce import (
        SuspendReport as SuspendReport,
        resume as resume,
        suspend as suspend,
    )
    from groups.rectify.report import (
        GroupRectifyReport as GroupRectifyReport,
        RectifyExtra as RectifyExtra,
        RectifyPlanned as RectifyPlanned,
        RectifyRow as RectifyRow,
        TableRectified as TableRectified,
    )
    from groups.rectify.run import rectify as rectify
    from groups.relay.arrivals import Arrival as Arrival
    from groups.relay.holds import QuietGroup as QuietGroup
    from groups.relay.release import Unquieted as Unquieted
    from groups.show import (
        GroupReport as GroupReport,
        MasterReport as MasterReport,
        list_groups as list_groups,
        masters_of_tables as masters_of_tables,
        show_group as show_group,
    )
    from groups.switch import (
        SwitchReport as SwitchReport,
        switch_master as switch_master,
    )


face(__name__)
