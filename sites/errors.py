"""The root of all errors that Snaptide raises, and those of the lowest layer."""

from __future__ import annotations

from typing import ClassVar

#: The most characters of a message: names or values in it may have megabytes.
LONGEST_MESSAGE = 8000


class SnaptideError(Exception):
    """Something that Snaptide was asked to do cannot be done.

    The first line of a class's docstring is the message when none is given;
    facts about the failure become attributes.

    Parameters:
        message: what happened, in the user's words; credentials never belong here.
        **facts: names and values to keep on the error, for programs that read it.
    """

    code: ClassVar[str] = "SNP-000"
    hint: ClassVar[str] = ""

    def __init__(self, message: str | None = None, **facts: object) -> None:
        doc = (type(self).__doc__ or type(self).__name__).strip()
        self.message = _shortened(message or doc.splitlines()[0])
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)
        super().__init__(self.message)


def in_one_line(error: SnaptideError) -> str:
    """Code, message and hint of an error in one line, for a log."""
    said = f"{error.code} {' '.join(error.message.split())}"
    return f"{said} Hint: {error.hint}" if error.hint else said


def _shortened(message: str) -> str:
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half]} [...] {message[-half:]}"


class UnknownSite(SnaptideError):
    """No site of that name is configured."""

    code = "SNP-001"
    hint = "Add a [sites.NAME] section to snaptide.toml, or name one that it has."


class SiteUnreachable(SnaptideError):
    """The database of the site cannot be reached."""

    code = "SNP-002"
    hint = (
        "Check that the server runs and that host, port, user and password in "
        "snaptide.toml are right. Queued changes stay where they are."
    )


class SiteNotInitialised(SnaptideError):
    """The site has no schema snaptide yet, or an older one."""

    code = "SNP-003"
    hint = "Run: snaptide site init NAME"


class UnknownTable(SnaptideError):
    """There is no such table, or the user of the site may not see it."""

    code = "SNP-004"
    hint = "Give the name as schema.table; the schema public may be left out."


class BadName(SnaptideError):
    """That is not the name of a table."""

    code = "SNP-005"
    hint = "Write table or schema.table; put quotes around parts that hold a dot."


class UnsupportedDatabase(SnaptideError):
    """This kind or version of database cannot take part."""

    code = "SNP-006"
    hint = "Sites run on PostgreSQL 16 or later, and not on a standby."


class SiteChanged(SnaptideError):
    """The database is no longer the one that this site was before."""

    code = "SNP-007"
    hint = (
        "It was restored, cloned, promoted or upgraded. Run: snaptide site check "
        "NAME, which says what changed; with --repair the site goes on from here."
    )


class SiteRestored(SnaptideError):
    """A site does not remember what another one has seen of it."""

    code = "SNP-018"
    hint = (
        "It was restored from a backup, rolled back, or is a copy. If it is to go on, "
        "run: snaptide site check NAME --repair, which keeps what is queued."
    )


class SiteReplaced(SnaptideError):
    """Another database has gone on as this site: this one is a copy of before."""

    code = "SNP-019"
    hint = (
        "If this one is to take its place: snaptide site check NAME --repair. If both "
        "are to live, give this one a name of its own in snaptide.toml, and repair it "
        "by that name: it keeps the changes that only it has."
    )


class NoFreeValue(SnaptideError):
    """A unique column can neither be NULL nor be given a free value for a moment."""

    code = "SNP-008"
    hint = (
        "Values of such a column could not be swapped. Make one column of the "
        "constraint nullable, or use an integer, text or uuid column."
    )


class ValueDoesNotFit(SnaptideError):
    """A value is none that the column at the destination can hold."""

    code = "SNP-027"
    hint = (
        "Correct the value at the site, or have the column at the destination hold it: "
        "its length, range, labels, or the encoding of its database."
    )


class RowCountMismatch(SnaptideError):
    """A statement did not touch exactly the rows that were compared."""

    code = "SNP-009"
    hint = (
        "A trigger or a row-level security policy at the destination swallowed "
        "or multiplied rows. Look at the triggers of the table that is named."
    )


class NotAMember(SnaptideError):
    """The user that Snaptide connects as may not apply changes."""

    code = "SNP-017"
    hint = (
        "Connect as the user who ran snaptide site init, or: GRANT snaptide_apply "
        "TO USER. Without it a refresh would look like changes of the site's own."
    )


class StillNeeded(SnaptideError):
    """Something that others have made depends on what is to be dropped."""

    code = "SNP-021"
    hint = "Drop what is named first, and make it again afterwards if it is needed."


class RecordedAlready(SnaptideError):
    """Changes of a partition or child are recorded for another table already."""

    code = "SNP-022"
    hint = (
        "Record the whole table: a snapshot's condition can select what one partition "
        "holds. From one that was detached, drop the triggers snaptide_* first."
    )
