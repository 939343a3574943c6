"""Errors of rectifying: codes SNP-273, 275 and 276."""

from __future__ import annotations

from sites.errors import SnaptideError


class CannotSend(SnaptideError):
    """The rows of this snapshot cannot be sent to its master."""

    code = "SNP-273"
    hint = (
        "Take the master's rows (--reference master, --extra delete or keep), or "
        "change them at the master."
    )


class BadPlan(SnaptideError):
    """The plan, or a key of it, does not fit the snapshots."""

    code = "SNP-275"
    hint = (
        "Give the values of all columns of the key, in order; or have the plan written "
        "anew: snaptide rectify SITE --plan FILE."
    )


class BadRule(SnaptideError):
    """A rule of rectify is wrong, or does not fit the snapshots that it is about."""

    code = "SNP-276"
    hint = (
        "A rule without `snapshots` is about all that are looked at: name those that "
        "have its columns. docs/howto/rectify.md describes rules."
    )
