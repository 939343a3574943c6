"""The work of a snapshot site: defining queries, refresh, refresh groups."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from deferred.options import (
        RefreshArguments as RefreshArguments,
        RefreshOptions as RefreshOptions,
    )
    from masters.numbers.left import Numbers as Numbers
    from snapshots.check.errors import (
        CheckRefused as CheckRefused,
        CheckRunning as CheckRunning,
        NoCommitTimes as NoCommitTimes,
        NoSuchCheck as NoSuchCheck,
        NotAllCompared as NotAllCompared,
        RowsDiffer as RowsDiffer,
    )
    from snapshots.check.report import (
        CheckReport as CheckReport,
        Count as Count,
        Difference as Difference,
        Kind as Kind,
        Reason as Reason,
        SnapshotCheck as SnapshotCheck,
    )
    from snapshots.check.run import check as check
    from snapshots.check.saved import (
        delete_checks as delete_checks,
        list_checks as list_checks,
        show_check as show_check,
    )
    from snapshots.creating.alter import (
        Condition as Condition,
        alter_condition as alter_condition,
        alter_conditions as alter_conditions,
        alter_leaving as alter_leaving,
    )
    from snapshots.creating.alter_columns import alter_columns as alter_columns
    from snapshots.creating.alter_everywhere import (
        alter_columns_everywhere as alter_columns_everywhere,
    )
    from snapshots.creating.answers import look_at_answers as look_at_answers
    from snapshots.creating.contracts import set_contract as set_contract
    from snapshots.creating.create import create as create
    from snapshots.creating.differences_of_shape import (
        list_shape_differences as list_shape_differences,
    )
    from snapshots.creating.drop import drop as drop
    from snapshots.creating.lenses import (
        drop_shape as drop_shape,
        map_shape as map_shape,
    )
    from snapshots.creating.listing import (
        describe_snapshot as describe_snapshot,
        list_snapshots as list_snapshots,
    )
    from snapshots.creating.numbers import (
        alter_numbers as alter_numbers,
        lease_numbers as lease_numbers,
        list_numbers as list_numbers,
        return_numbers as return_numbers,
    )
    from snapshots.creating.propagation import (
        PropagationReport as PropagationReport,
        alter_propagation as alter_propagation,
    )
    from snapshots.creating.shapes import list_shapes as list_shapes
    from snapshots.definitions.errors import (
        BeyondGrant as BeyondGrant,
        CallsUseColumn as CallsUseColumn,
        CannotPark as CannotPark,
        CannotPropagate as CannotPropagate,
        ChangeWithdrawn as ChangeWithdrawn,
        ColumnsLeftOut as ColumnsLeftOut,
        ColumnsRefused as ColumnsRefused,
        DifferentTypes as DifferentTypes,
        HiddenRows as HiddenRows,
        IdentityLeftOut as IdentityLeftOut,
        KeyGenerated as KeyGenerated,
        MasterUnreachable as MasterUnreachable,
        MissingAtSite as MissingAtSite,
        MixedMasters as MixedMasters,
        NameTaken as NameTaken,
        NeedsParent as NeedsParent,
        NoSuchNumbers as NoSuchNumbers,
        NoSuchReference as NoSuchReference,
        NotByKey as NotByKey,
        NothingToHold as NothingToHold,
        NumbersRefused as NumbersRefused,
        RowsKept as RowsKept,
        SeveralParents as SeveralParents,
        SnapshotRefused as SnapshotRefused,
        TooManyNumbers as TooManyNumbers,
        TooWide as TooWide,
        UndeliveredCalls as UndeliveredCalls,
        UnknownColumn as UnknownColumn,
        UnknownPolicy as UnknownPolicy,
        UnknownSnapshot as UnknownSnapshot,
        UnreadableType as UnreadableType,
        UnusableTable as UnusableTable,
    )
    from snapshots.definitions.policy import Leaving as Leaving
    from snapshots.errors import (
        CannotMerge as CannotMerge,
        ColumnChanged as ColumnChanged,
        ColumnGone as ColumnGone,
        ConditionBroken as ConditionBroken,
        DifferentGroups as DifferentGroups,
        ErrorsAtMaster as ErrorsAtMaster,
        FirstLoadByAnother as FirstLoadByAnother,
        KeyNotUnique as KeyNotUnique,
        MassDelete as MassDelete,
        MassLeave as MassLeave,
        LensFails as LensFails,
        MasterBehind as MasterBehind,
        MasterChanged as MasterChanged,
        NoSnapshotLog as NoSnapshotLog,
        NotShownInTime as NotShownInTime,
        PositionMoved as PositionMoved,
        RefreshError as RefreshError,
        RefreshRunning as RefreshRunning,
        RowsHidden as RowsHidden,
        SnapshotLogTooYoung as SnapshotLogTooYoung,
        StageLost as StageLost,
        UsersInTheWay as UsersInTheWay,
        WrongMethod as WrongMethod,
    )
    from snapshots.images.errors import (
        AlreadyLoaded as AlreadyLoaded,
        ImageColumnsDiffer as ImageColumnsDiffer,
        ImageConditionRefused as ImageConditionRefused,
        ImageDamaged as ImageDamaged,
        ImageExpired as ImageExpired,
        ImageFolderUnusable as ImageFolderUnusable,
        ImageLacksRows as ImageLacksRows,
        ImageOfAnotherMaster as ImageOfAnotherMaster,
        ImageRowsRefused as ImageRowsRefused,
        NotAnImage as NotAnImage,
        SliceMissing as SliceMissing,
    )
    from snapshots.images.load import load_image as load_image
    from snapshots.images.make import make_image as make_image
    from snapshots.images.report import (
        ImageReport as ImageReport,
        LoadReport as LoadReport,
    )
    from snapshots.merging.held_keys import (
        HeldCount as HeldCount,
        HeldRow as HeldRow,
        HeldRows as HeldRows,
        list_held as list_held,
    )
    from snapshots.merging.kept import (
        KeptRow as KeptRow,
        list_kept as list_kept,
        remove_kept as remove_kept,
    )
    from snapshots.rectify.errors import (
        BadPlan as BadPlan,
        BadRule as BadRule,
        CannotSend as CannotSend,
    )
    from snapshots.rectify.report import (
        Extra as Extra,
        Missing as Missing,
        Planned as Planned,
        PlannedRow as PlannedRow,
        RectifyReport as RectifyReport,
        Reference as Reference,
        SnapshotRectified as SnapshotRectified,
        Take as Take,
    )
    from snapshots.rectify.rules import RectifyRule as RectifyRule
    from snapshots.rectify.run import rectify as rectify
    from snapshots.refreshing.many import refresh_many as refresh_many
    from snapshots.refreshing.past_refreshes import (
        PastRefresh as PastRefresh,
        list_refreshes as list_refreshes,
    )
    from snapshots.refreshing.refresh import refresh as refresh
    from snapshots.refreshing.wait_for import Shown as Shown, wait_for as wait_for
    from snapshots.reports import (
        AskedTable as AskedTable,
        Cause as Cause,
        ColumnsReport as ColumnsReport,
        CreateReport as CreateReport,
        GroupRefreshed as GroupRefreshed,
        LeftBehind as LeftBehind,
        MappedShape as MappedShape,
        RefreshReport as RefreshReport,
        Shape as Shape,
        ShapeDifference as ShapeDifference,
        ShapeLens as ShapeLens,
        SiteColumns as SiteColumns,
        SnapshotDescription as SnapshotDescription,
        SnapshotReport as SnapshotReport,
        SnapshotShape as SnapshotShape,
        WayTaken as WayTaken,
    )
    from snapshots.spark.errors import (
        JavaMissing as JavaMissing,
        LoadFailed as LoadFailed,
        RowTooLong as RowTooLong,
        SparkAfterFork as SparkAfterFork,
        SparkAlreadyRunning as SparkAlreadyRunning,
        SparkError as SparkError,
        SparkNotStarted as SparkNotStarted,
        StageFailed as StageFailed,
    )


face(__name__)
