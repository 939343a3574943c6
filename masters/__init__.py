"""The work of a master: snapshot logs, apply, conflict detection and resolution."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from masters.contract_catalog import ContractState as ContractState
    from masters.contracts.contract import (
        Contract as Contract,
        ContractChange as ContractChange,
        OnBreach as OnBreach,
        contract_changes as contract_changes,
        drop_contract as drop_contract,
        list_contracts as list_contracts,
    )
    from masters.contracts.errors import (
        ContractWithoutTerms as ContractWithoutTerms,
        TermsContradict as TermsContradict,
        UnknownContract as UnknownContract,
    )
    from masters.contracts.look import look_at_contracts as look_at_contracts
    from masters.errors import (
        BadRulebook as BadRulebook,
        CannotLease as CannotLease,
        CannotLogTable as CannotLogTable,
        CannotPartition as CannotPartition,
        DdlRefused as DdlRefused,
        ImageNameTaken as ImageNameTaken,
        InvalidNetChange as InvalidNetChange,
        InvalidParameter as InvalidParameter,
        LensInUse as LensInUse,
        LensOfGroup as LensOfGroup,
        LensRefused as LensRefused,
        MethodDoesNotFit as MethodDoesNotFit,
        MissingParameter as MissingParameter,
        NoPrimaryKey as NoPrimaryKey,
        NoSnapshotLog as NoSnapshotLog,
        NoSuchRecord as NoSuchRecord,
        NumbersUsedUp as NumbersUsedUp,
        PartUnrecorded as PartUnrecorded,
        RuleError as RuleError,
        RuleExists as RuleExists,
        RulesMoved as RulesMoved,
        SequenceBehind as SequenceBehind,
        SnapshotLogExists as SnapshotLogExists,
        SnapshotLogInUse as SnapshotLogInUse,
        TableAltered as TableAltered,
        TablePublished as TablePublished,
        UnknownColumn as UnknownColumn,
        UnknownColumnGroup as UnknownColumnGroup,
        UnknownConstraint as UnknownConstraint,
        UnknownImage as UnknownImage,
        UnknownLens as UnknownLens,
        UnknownMethod as UnknownMethod,
        UnknownParameter as UnknownParameter,
        UnknownRoutine as UnknownRoutine,
        UnknownRule as UnknownRule,
        UnusableRoutine as UnusableRoutine,
        WrongColumnCount as WrongColumnCount,
        WrongColumnType as WrongColumnType,
    )
    from masters.publications.errors import (
        BadTemplate as BadTemplate,
        CannotPublish as CannotPublish,
        LoginUnfit as LoginUnfit,
        PublicationExists as PublicationExists,
        PublicationGranted as PublicationGranted,
        UnknownGrant as UnknownGrant,
        UnknownPublication as UnknownPublication,
        WrongParameters as WrongParameters,
    )
    from masters.log.create_all import (
        LogOfTable as LogOfTable,
        create_snapshot_logs as create_snapshot_logs,
    )
    from masters.log.execute_ddl import (
        DdlReport as DdlReport,
        PastDdl as PastDdl,
        execute_ddl as execute_ddl,
        list_ddl as list_ddl,
    )
    from masters.log.images import (
        RegisteredImage as RegisteredImage,
        drop_image as drop_image,
        list_images as list_images,
    )
    from masters.log.purge import (
        LogPurgeReport as LogPurgeReport,
        purge_snapshot_logs as purge_snapshot_logs,
    )
    from masters.log.snapshot_log import (
        SnapshotLog as SnapshotLog,
        alter_snapshot_log as alter_snapshot_log,
        create_snapshot_log as create_snapshot_log,
        drop_snapshot_log as drop_snapshot_log,
        list_snapshot_logs as list_snapshot_logs,
        show_snapshot_log as show_snapshot_log,
    )
    from masters.log.whole import (
        RepairedLog as RepairedLog,
        repair_snapshot_logs as repair_snapshot_logs,
    )
    from masters.numbers.listing import (
        LeasedNumbers as LeasedNumbers,
        list_leases as list_leases,
    )
    from masters.publications.granting import grant as grant, revoke as revoke
    from masters.publications.publication import (
        Grant as Grant,
        Publication as Publication,
        alter_publication as alter_publication,
        create_publication as create_publication,
        drop_publication as drop_publication,
        list_publications as list_publications,
        show_publication as show_publication,
    )
    from masters.publications.published import PublishedTable as PublishedTable
    from masters.resolution.conflict import Conflict as Conflict, Kind as Kind
    from masters.resolution.method import Method as Method
    from masters.resolution.takes import Takes as Takes
    from masters.rules import (
        add_delete_resolution as add_delete_resolution,
        add_unique_resolution as add_unique_resolution,
        add_update_resolution as add_update_resolution,
        compare_old_values as compare_old_values,
        drop_delete_resolution as drop_delete_resolution,
        drop_unique_resolution as drop_unique_resolution,
        drop_update_resolution as drop_update_resolution,
        list_rules as list_rules,
        send_old_values as send_old_values,
        set_column_group as set_column_group,
        set_row_version as set_row_version,
    )
    from masters.rules.rule import Rule as Rule
    from masters.rules.table_rules import (
        Comparison as Comparison,
        TableRules as TableRules,
    )


face(__name__)
