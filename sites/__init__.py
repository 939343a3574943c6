"""A database that takes part: how to reach it, describe it, record and write it."""

from sites.errors import SnaptideError
from sites.names import QualifiedName
from sites.site import Directory, Site

__all__ = ["Directory", "QualifiedName", "Site", "SnaptideError"]
