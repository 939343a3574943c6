"""Errors of checks: codes SNP-270 to SNP-279."""

from __future__ import annotations

from sites.errors import SnaptideError


class CheckRefused(SnaptideError):
    """This cannot be checked."""

    code = "SNP-270"
    hint = (
        "Compare columns that both sides have, by a condition on the rows of one table "
        "alone, or rows that were written within a time that has passed."
    )


class RowsDiffer(SnaptideError):
    """A scheduled check found rows that differ without a reason."""

    code = "SNP-272"
    hint = (
        "Look at them with: snaptide check show SITE RUN. The next check that finds "
        "none clears this."
    )


class NoSuchCheck(SnaptideError):
    """The site keeps no check of that number."""

    code = "SNP-271"
    hint = (
        "List those that it keeps with: snaptide check list SITE. Only checks with "
        "--save are kept, and old ones are removed."
    )


class NoCommitTimes(SnaptideError):
    """A database does not keep the times at which rows were written."""

    code = "SNP-274"
    hint = (
        "Set track_commit_timestamp = on at both sides and restart them; rows that "
        "were written before have no time. Or ask for what needs no times."
    )


class NotAllCompared(SnaptideError):
    """A scheduled check could not compare groups whose master does not answer."""

    code = "SNP-278"
    hint = (
        "The other groups were compared, and what was found of them is saved. The next "
        "run asks these masters again."
    )


class CheckRunning(SnaptideError):
    """The same check by schedule is running already."""

    code = "SNP-277"
    hint = (
        "Let it end. If each run takes longer than its interval, choose a longer one."
    )
