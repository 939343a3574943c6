"""A database that takes part: reach it, describe it, record its changes, write it."""

from sites.errors import SnaptideError
from sites.names import QualifiedName
from sites.site import Directory, Site

__all__ = ["Directory", "QualifiedName", "Site", "SnaptideError"]
