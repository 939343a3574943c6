"""Errors of columns that draw numbers of a site's own: codes SNP-250 to SNP-259."""

from __future__ import annotations

from sites.errors import SnaptideError
from snapshots.errors import SnapshotRefused


class NumbersRefused(SnapshotRefused):
    """The column cannot get its values in this way."""

    code = "SNP-250"
    hint = (
        "Give lease for a whole number that the master draws from a sequence, uuidv7 "
        "for a uuid, or none."
    )


class TooManyNumbers(SnaptideError):
    """A lease that is asked for by hand is larger than a master draws at once."""

    code = "SNP-252"
    hint = "Ask for fewer numbers, or several times."


class NoSuchNumbers(SnaptideError):
    """No column of that name draws numbers at the site."""

    code = "SNP-251"
    hint = (
        "Name it as TABLE.COLUMN; snaptide numbers list SITE shows those that there "
        "are. snaptide snapshot alter SITE TABLE --numbers COLUMN=lease makes one."
    )
