"""Errors of rectifying: codes SNP-273 to SNP-275."""

from __future__ import annotations

from sites.errors import SnaptideError


class CannotSend(SnaptideError):
    """The rows of this snapshot cannot be sent to its master."""

    code = "SNP-273"
    hint = (
        "Take the master's rows (--reference master, --extra delete or keep), or "
        "change them at the master."
    )


class NoCommitTimes(SnaptideError):
    """A database does not keep the times at which rows were written."""

    code = "SNP-274"
    hint = (
        "Set track_commit_timestamp = on at both sides and restart them; rows that "
        "were written before have no time. Or name the reference: master or site."
    )


class BadPlan(SnaptideError):
    """The plan, or a key of it, does not fit the snapshots."""

    code = "SNP-275"
    hint = "Have it written anew: snaptide rectify SITE --plan FILE."
