"""Errors of the console (SNP-43x)."""

from __future__ import annotations

from sites.errors import SnaptideError


class BadUserFile(SnaptideError):
    """The file of the console's users cannot be read."""

    code = "SNP-430"
    hint = "Write it with: snaptide user set NAME --role viewer|operator|administrator"


class BadUser(SnaptideError):
    """The name, role or password cannot be a user's."""

    code = "SNP-431"
    hint = (
        "A name has up to 64 letters, digits and characters of ._@-; a password has at "
        "least 12 characters."
    )


class NoSuchUser(SnaptideError):
    """The console has no user of that name."""

    code = "SNP-432"
    hint = "List them with: snaptide user list"


class UnsafeAddress(SnaptideError):
    """The console would be open to other machines without a protection it needs."""

    code = "SNP-433"
    hint = (
        "Listen on 127.0.0.1, or make users (snaptide user set NAME) and name the "
        "hosts under which browsers reach the console (--host)."
    )


class PageMissing(SnaptideError):
    """The console has no such page."""

    code = "SNP-434"
    hint = "Begin at the overview."


class Refused(SnaptideError):
    """The console does not do this for this request."""

    code = "SNP-435"
    hint = "Go back, load the page again, and repeat it as a user who may do it."
