"""Errors of checks: codes SNP-270 to SNP-279."""

from __future__ import annotations

from sites.errors import SnaptideError


class CheckRefused(SnaptideError):
    """This cannot be checked."""

    code = "SNP-270"
    hint = "Compare by columns that the snapshots have."
