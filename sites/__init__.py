"""A database that takes part: reach it, describe it, record its changes, write it."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from sites.conditions.where import BadCondition, ConditionNotImmutable
    from sites.configured import NotConfigured
    from sites.errors import (
        BadName,
        NewerSchema,
        NoFreeValue,
        NotAMember,
        OlderSchema,
        OtherSchema,
        RecordedAlready,
        RowCountMismatch,
        SiteChanged,
        SiteNotInitialised,
        SiteReplaced,
        SiteRestored,
        SiteUnreachable,
        SnaptideError,
        StillNeeded,
        UnknownSite,
        UnknownTable,
        UnsupportedDatabase,
        ValueDoesNotFit,
    )
    from sites.extras import MissingExtra
    from sites.names import QualifiedName
    from sites.progress import Progress
    from sites.sessions.site import Directory, Site
    from sites.transfer.arrow import ArrowTransportFailed

__all__ = [
    "ArrowTransportFailed",
    "BadCondition",
    "BadName",
    "ConditionNotImmutable",
    "Directory",
    "MissingExtra",
    "NewerSchema",
    "NoFreeValue",
    "NotAMember",
    "NotConfigured",
    "OlderSchema",
    "OtherSchema",
    "Progress",
    "QualifiedName",
    "RecordedAlready",
    "RowCountMismatch",
    "Site",
    "SiteChanged",
    "SiteNotInitialised",
    "SiteReplaced",
    "SiteRestored",
    "SiteUnreachable",
    "SnaptideError",
    "StillNeeded",
    "UnknownSite",
    "UnknownTable",
    "UnsupportedDatabase",
    "ValueDoesNotFit",
]

face(__name__)
