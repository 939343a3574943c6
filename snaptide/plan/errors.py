"""Errors of files that describe sites: codes SNP-41x."""

from __future__ import annotations

from sites.errors import SnaptideError


class BadSiteFile(SnaptideError):
    """The file that describes a site is not valid."""

    code = "SNP-410"
    hint = "docs/howto/a-site-as-a-file.md shows a whole file."


class UnsetParameter(BadSiteFile):
    """The file names a parameter that has no value."""

    code = "SNP-411"
    hint = "Give it with --set NAME=VALUE, or write $${NAME} if you mean the text."


class UnusedParameter(BadSiteFile):
    """A parameter was given that the file does not name."""

    code = "SNP-412"
    hint = "Leave it out, or write ${NAME} where the file is to have its value."


class CannotApply(SnaptideError):
    """The site has what no command changes in place; nothing was changed."""

    code = "SNP-413"
    hint = (
        "Change the file; or push the site's changes, drop what the message names, and "
        "apply the file again."
    )


class NoSuchParameter(SnaptideError):
    """No condition of the site compares a column of this name with a value."""

    code = "SNP-414"
    hint = (
        "Name a column that the site's conditions compare with one value, as store_id "
        "or store for store_id = 2."
    )


class WouldBeLost(SnaptideError):
    """The site holds changes that would be lost with it; nothing was dropped."""

    code = "SNP-415"
    hint = (
        "Settle what the message names: push, or snaptide destination validate, or "
        "snaptide errors list. With --force the site goes with what it has."
    )


class StillInUse(SnaptideError):
    """Other sites depend on the site; nothing was dropped."""

    code = "SNP-416"
    hint = (
        "Drop the snapshots that other sites have of its tables, or switch them to "
        "another master, and take it out of its replication groups."
    )
