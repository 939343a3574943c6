"""The root of all errors that Snaptide raises, and those of the lowest layer."""

from __future__ import annotations

from typing import ClassVar

#: The most characters of a message: names or values in it may have megabytes.
LONGEST_MESSAGE = 8000


class SnaptideError(Exception):
    """Snaptide cannot do what it was asked to do.

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
    """No site with that name is configured."""

    code = "SNP-001"
    hint = "Add a [sites.NAME] section to snaptide.toml, or use one of the sites in it."


class SiteUnreachable(SnaptideError):
    """The database of the site cannot be reached."""

    code = "SNP-002"
    hint = (
        "Check that the server is running and that host, port, user and password in "
        "snaptide.toml are right. Queued changes are kept."
    )


class NoConnectionFree(SiteUnreachable):
    """All connections that the site's database allows were in use for too long."""

    code = "SNP-030"
    hint = (
        "Workers try again by themselves. If it lasts, raise the limit of the role, "
        "the database or the server, or have fewer workers: docs/howto/many-sites.md "
        "tells how many connections they use. Queued changes are kept."
    )


class SiteNotInitialised(SnaptideError):
    """The site has no schema snaptide yet."""

    code = "SNP-003"
    hint = "Run: snaptide site init NAME"


class OtherSchema(SnaptideError):
    """Another version of Snaptide made the schema of the site."""

    code = "SNP-023"
    hint = "Upgrade the site or the program; docs/howto/upgrade.md has the order."


class OlderSchema(OtherSchema):
    """An older version of Snaptide made the schema of the site."""

    code = "SNP-024"
    hint = (
        "Run: snaptide site init NAME. Queued changes are kept, and delivered then; "
        "docs/howto/upgrade.md says in which order sites are upgraded."
    )


class NewerSchema(OtherSchema):
    """A newer version of Snaptide made the schema of the site."""

    code = "SNP-407"
    hint = (
        "Install the newer Snaptide where this is said, and upgrade the site that it "
        "works for. Queued changes are kept, and delivered then; docs/howto/upgrade.md "
        "says in which order sites are upgraded."
    )


class UnknownTable(SnaptideError):
    """The table does not exist, or the site's user is not allowed to see it."""

    code = "SNP-004"
    hint = (
        "Write the name as schema.table; the schema public may be left out. If a table "
        "was renamed or moved to another schema after Snaptide had begun to record it, "
        "snaptide doctor says for its site what it is called now."
    )


class BadName(SnaptideError):
    """This is not a valid table name."""

    code = "SNP-005"
    hint = (
        "Write table or schema.table; put double quotes around a part that contains a "
        "dot."
    )


class UnsupportedDatabase(SnaptideError):
    """Snaptide does not support this kind or version of database."""

    code = "SNP-006"
    hint = "Use PostgreSQL 16 or later, and the primary server instead of a standby."


class SiteChanged(SnaptideError):
    """The site's database is not the one that Snaptide recorded for this site."""

    code = "SNP-007"
    hint = (
        "The database was restored, cloned, promoted or upgraded. Run snaptide site "
        "check NAME to see what changed; add --repair to go on with this database."
    )


class OtherDatabase(SiteChanged):
    """The name of a site leads to another database than the one it stood for."""

    code = "SNP-032"
    hint = (
        "Correct the url of the site in snaptide.toml, so that it leads to the former "
        "database. Queued changes are kept. If that is lost, create what was made with "
        "it anew: drop the snapshots with --force, and create them again. Procedure "
        "calls that wait then go to the new database."
    )


class SiteRestored(SnaptideError):
    """A site is older than the state of it that another site has seen."""

    code = "SNP-018"
    hint = (
        "The site was restored from a backup, rolled back, or is a copy. To go on "
        "with it, run: snaptide site check NAME --repair. Queued changes are kept."
    )


class SiteReplaced(SnaptideError):
    """Another database has taken over as this site; this one is an older copy."""

    code = "SNP-019"
    hint = (
        "To go on with this database instead, run: snaptide site check NAME --repair. "
        "To keep both, give this one a name of its own in snaptide.toml and repair "
        "it under that name; it keeps the changes that only it has."
    )


class NoFreeValue(SnaptideError):
    """Snaptide cannot give a unique column a temporary value."""

    code = "SNP-008"
    hint = (
        "Swapping two values of a unique key needs a temporary value. Make one column "
        "of the constraint nullable, or use an integer, text or uuid column."
    )


class ValueDoesNotFit(SnaptideError):
    """The column at the destination cannot hold a value."""

    code = "SNP-027"
    hint = (
        "Correct the value at the site, or change the column at the destination so "
        "that it can hold the value: its length, range or labels, or the encoding of "
        "its database."
    )


class ValueNotSent(SnaptideError):
    """A database cannot send a value that it holds."""

    code = "SNP-034"
    hint = (
        "The values of a row are as text longer than 1 GB, which is PostgreSQL's limit "
        "(old and new values together; a byte counts twice), or a database with the "
        "encoding SQL_ASCII holds bytes that are no text in UTF-8. Nothing is lost, "
        "but the push stops before this transaction. To go on without it: save what "
        "waits for this snapshot, drop it with --force, create it again, and make the "
        "changes anew, with smaller values or with valid texts."
    )


class RowCountMismatch(SnaptideError):
    """A statement changed more or fewer rows than were compared."""

    code = "SNP-009"
    hint = (
        "A trigger, a rule (CREATE RULE) or a row-level security policy at the "
        "destination suppressed or added rows. Check the triggers and rules of the "
        "table that the message names."
    )


class NotAMember(SnaptideError):
    """Snaptide's database user is not allowed to apply changes."""

    code = "SNP-017"
    hint = (
        "Connect as the user who ran snaptide site init, or run: GRANT snaptide_apply "
        "TO USER. Otherwise the site would record a refresh as changes of its own."
    )


class TriggersSwitchedOff(SnaptideError):
    """What Snaptide writes at the site would meet no foreign key, and no trigger."""

    code = "SNP-031"
    hint = (
        "Somebody has set session_replication_role for the database, the role or the "
        "server. Take it back, for one of them: ALTER DATABASE NAME RESET "
        "session_replication_role; ALTER ROLE NAME (IN DATABASE NAME) RESET ...; ALTER "
        "SYSTEM RESET ... and SELECT pg_reload_conf(). Sessions that begin after that "
        "have it right; restart workers. Queued changes are kept."
    )


class ActsAsAnotherRole(SnaptideError):
    """Sessions of Snaptide's database user begin in a role without its rights."""

    code = "SNP-033"
    hint = (
        "Somebody has run ALTER ROLE ... SET role for Snaptide's user. Take it back: "
        "ALTER ROLE USER RESET role, or ALTER ROLE USER IN DATABASE NAME RESET role. "
        "Or give the other role what Snaptide's user has. Sessions that begin after "
        "that have it right; restart workers. Queued changes are kept."
    )


class TableHidesRows(SnaptideError):
    """Row-level security hides rows from Snaptide's database user at a destination."""

    code = "SNP-035"
    hint = (
        "A hidden row would be taken for one that is gone. Connect there as the owner "
        "of the table, without FORCE ROW LEVEL SECURITY, or run: ALTER ROLE USER "
        "BYPASSRLS. Nothing is lost: the changes stay queued."
    )


class NotGranted(SnaptideError):
    """The master lets the user of its URL read or write nothing of what was asked."""

    code = "SNP-290"
    hint = (
        "At the master, grant the publication (again): snaptide grant SITE PUBLICATION "
        "NAME. No change is lost. Rows that are granted no more leave the site as the "
        "snapshot's --leaving says; the next refresh after a grant compares all rows."
    )


class StillNeeded(SnaptideError):
    """Other objects depend on the objects to be dropped."""

    code = "SNP-021"
    hint = (
        "Drop the objects that the message names first, and create them again "
        "afterwards if you need them."
    )


class RecordedAlready(SnaptideError):
    """Changes of a partition or child are already recorded for another table."""

    code = "SNP-022"
    hint = (
        "Create the log on the whole table: a snapshot's condition can select the "
        "rows of one partition. If the partition was detached, drop its triggers "
        "snaptide_* first."
    )
