"""A database that takes part: reach it, describe it, record its changes, write it."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from sites.conditions.where import (
        BadCondition as BadCondition,
        ConditionNotImmutable as ConditionNotImmutable,
    )
    from sites.configured import NotConfigured as NotConfigured
    from sites.errors import (
        ActsAsAnotherRole as ActsAsAnotherRole,
        BadName as BadName,
        NewerSchema as NewerSchema,
        NoConnectionFree as NoConnectionFree,
        NoFreeValue as NoFreeValue,
        NotAMember as NotAMember,
        NotGranted as NotGranted,
        OlderSchema as OlderSchema,
        OtherDatabase as OtherDatabase,
        OtherSchema as OtherSchema,
        RecordedAlready as RecordedAlready,
        RowCountMismatch as RowCountMismatch,
        SiteChanged as SiteChanged,
        SiteNotInitialised as SiteNotInitialised,
        SiteReplaced as SiteReplaced,
        SiteRestored as SiteRestored,
        SiteUnreachable as SiteUnreachable,
        SnaptideError as SnaptideError,
        StillNeeded as StillNeeded,
        TriggersSwitchedOff as TriggersSwitchedOff,
        UnknownSite as UnknownSite,
        UnknownTable as UnknownTable,
        UnsupportedDatabase as UnsupportedDatabase,
        ValueDoesNotFit as ValueDoesNotFit,
        TableHidesRows as TableHidesRows,
        ValueNotSent as ValueNotSent,
    )
    from sites.extras import MissingExtra as MissingExtra
    from sites.names import QualifiedName as QualifiedName
    from sites.progress import Progress as Progress
    from sites.sessions.site import Directory as Directory, Site as Site
    from sites.transfer.arrow import ArrowTransportFailed as ArrowTransportFailed


face(__name__)
