"""Errors of the deferred package: codes SNP-3xx."""

from __future__ import annotations

from sites.errors import SnaptideError


class QueueNotEmpty(SnaptideError):
    """The queue holds calls that have not been delivered yet."""

    code = "SNP-301"
    hint = "Push first (snaptide push SITE), or discard the calls with --force."


class NoSuchDestination(SnaptideError):
    """This site queues nothing for that destination."""

    code = "SNP-302"  # Oracle: ORA-23326
    hint = "List the site's destinations with: snaptide destination list SITE"


class DestinationDisabled(SnaptideError):
    """Propagation to this destination is disabled."""

    code = "SNP-303"  # Oracle: ORA-23354
    hint = "Enable it with: snaptide push SITE DESTINATION --enable"


class ChangesNotQueued(SnaptideError):
    """Users' changes of a snapshot are not queued: a trigger is missing or off."""

    code = "SNP-336"
    hint = (
        "Run the statements that the message names at the site, as the owner of the "
        "tables. Then snaptide check SITE finds the rows that were changed meanwhile."
    )


class PositionMismatch(SnaptideError):
    """The destination's position does not match what this site has pushed."""

    code = "SNP-304"
    hint = (
        "A database was restored, or a push from before a repair went on. Changes stay "
        "queued. Run snaptide site check NAME; at need, with --repair --restored."
    )


class PushInterrupted(SnaptideError):
    """The push stopped; what was not applied stays queued."""

    code = "SNP-305"
    hint = "The next push goes on. If it says the same again, settle that first."


class PastRetention(SnaptideError):
    """The destination was restored to a time before what this site still keeps."""

    code = "SNP-306"
    hint = (
        "Rows of these changes may still be in the site's snapshots until the next "
        "refresh: save the ones you need. Then continue without the changes: run "
        "snaptide site check NAME --repair at the site that pushes."
    )


class CannotTell(SnaptideError):
    """The destination no longer remembers which queued changes it has applied."""

    code = "SNP-307"
    hint = (
        "The backup is older than the destination's ledger. Save what is queued (view "
        "snaptide.defcall), drop the site's snapshots with --force, create them "
        "again, and enter what is missing. docs/howto/after-a-restore.md has the "
        "steps."
    )


class PushRunning(SnaptideError):
    """Another push is running, and this has to wait for it."""

    code = "SNP-308"
    hint = "Try again when that push has ended; snaptide status shows it."


class DestinationInvalid(SnaptideError):
    """The queue for this destination exceeds its budget; nothing is pushed."""

    code = "SNP-309"
    hint = (
        "See what is queued: snaptide destination list SITE. To push it anyway: "
        "snaptide destination validate SITE DESTINATION. To give it up: drop the "
        "snapshots with --force and create them again."
    )


class TransactionRefused(SnaptideError):
    """A transaction could not be applied, and the push stopped at it."""

    code = "SNP-310"
    hint = (
        "The transaction and those after it stay queued. Settle the cause at the "
        "master and push again, or push with --error-action queue to park the "
        "transaction in the error queue."
    )


class DestinationQuiet(TransactionRefused):
    """A transaction could not be applied, and pushes to the master have stopped."""

    code = "SNP-323"
    hint = (
        "The transaction and those after it stay queued. Settle the cause at the "
        "destination. Then let pushes go on: snaptide push SITE DESTINATION --enable, "
        "or for all masters of a group at once: snaptide group unquiet SITE GROUP "
        "MASTER"
    )


class TooWide(SnaptideError):
    """Columns cannot be added to a queue whose rows fill more than a page."""

    code = "SNP-326"
    hint = "Suspend the group first; its queue is then created again."


class ColumnRenamed(SnaptideError):
    """A column of a group's table was renamed or created again at one master."""

    code = "SNP-334"
    hint = (
        "Give the column its old name there; to rename it at all masters, suspend the "
        "group and use: snaptide group execute-ddl. To restore a column that was "
        "dropped, take the table out of the group, make it alike everywhere, and add "
        "it again. Nothing is lost: the changes stay queued."
    )


class TargetColumnsMoved(SnaptideError):
    """A column of a master table is another one than changes were made for."""

    code = "SNP-335"
    hint = (
        "Push what waits before the refresh: changes go to the columns that they were "
        "made for. If a column of the key is gone, they cannot: drop the snapshot with "
        "--force, create it again, and make the changes anew. If its group is "
        "synchronous, refresh the snapshot, or have it follow (snaptide snapshot alter "
        "SITE NAME --rename OLD=NEW). Nothing is lost: the changes stay queued."
    )


class GivesGoneColumn(SnaptideError):
    """A change gives a value to a column that the master has dropped, or computes."""

    code = "SNP-337"
    hint = (
        "The value has no place to go. If other columns are in its place, say how they "
        "are made (snaptide shape map), and retry; or apply the transaction without it "
        "(snaptide errors retry MASTER ID --without-gone), also with other values "
        "(--edit); or add a column of that name at the master, and retry by number: it "
        "gets the value; or delete the transaction (snaptide errors delete). Changes "
        "that leave the column alone are applied. If the master computes the column, "
        "drop the snapshot and create it again, so that the site does so, too."
    )


class ValueWouldChange(SnaptideError):
    """The master's column would round or cut a value of the site."""

    code = "SNP-254"
    hint = (
        "At the master, give the column a type that holds all values of the site, and "
        "retry; or retry with another value (--edit). Until the types agree, "
        "transactions are applied one by one, so that only those with such a value are "
        "parked. A synchronous transaction is refused."
    )


class OtherSchemaVersion(SnaptideError):
    """The two masters of a push have different versions of their group's schema."""

    code = "SNP-325"
    hint = (
        "DDL of the group may be on its way: the push goes on when it has arrived. "
        "Run snaptide group show SITE GROUP to see which master is behind; change its "
        "tables to match the definition site, then run any command of the group. "
        "Nothing is lost: the changes stay queued."
    )


class TooManyErrors(SnaptideError):
    """The limit of parked transactions is reached; the site has stopped pushing."""

    code = "SNP-331"
    hint = (
        "Retry or delete the parked transactions: snaptide errors list DESTINATION. "
        "Then let pushes go on, for each destination: snaptide push SITE DESTINATION "
        "--enable"
    )


class NoSuchError(SnaptideError):
    """The error queue has no such transaction."""

    code = "SNP-311"  # Oracle: ORA-24275 and ORA-23429
    hint = "List them with: snaptide errors list SITE"


class RetryFailed(SnaptideError):
    """The transaction still cannot be applied; it stays in the error queue."""

    code = "SNP-312"
    hint = (
        "Look at it with: snaptide errors show SITE ID; change it with: snaptide "
        "errors retry SITE ID --edit"
    )


class BadEdit(SnaptideError):
    """The edit does not fit the transaction's calls."""

    code = "SNP-313"
    hint = "Write TABLE.COLUMN=VALUE, or CALL_NO.COLUMN=VALUE when several calls match."


class BadSkip(SnaptideError):
    """Calls cannot be left out of a retry in this way."""

    code = "SNP-361"
    hint = (
        "Name calls by the numbers that snaptide errors show prints, some but not all; "
        "to give the whole transaction up, use snaptide errors delete."
    )


class LeftOut(SnaptideError):
    """An operator left these calls out when the others were applied."""

    code = "SNP-362"
    hint = (
        "Retry the transaction, with --edit if needed, or give what is left of it up "
        "with snaptide errors delete."
    )


class UnresolvedConflict(SnaptideError):
    """No rule settled a conflict; the transaction is in the error queue."""

    code = "SNP-314"  # Oracle: ORA-23402
    hint = (
        "Look at it with snaptide errors show, then retry it (with --edit to change "
        "it) or delete it."
    )


class WaitsForError(SnaptideError):
    """The transaction depends on another one in the error queue."""

    code = "SNP-315"
    hint = "Settle that one first, or retry both with --with-dependants."


class PredecessorLost(SnaptideError):
    """The transaction depends on a row that the master does not have."""

    code = "SNP-368"
    hint = (
        "The master may have another site's row in its place. Look with snaptide "
        "errors show, then retry the transaction by its number, with --edit if "
        "needed, or delete it."
    )


class GroupQuiet(SnaptideError):
    """The transaction waits in the error queue, because its group is quiet."""

    code = "SNP-333"
    hint = (
        "Settle the cause, then run: snaptide group unquiet SITE GROUP MASTER "
        "--only-group"
    )


class ProcedureNotAllowed(SnaptideError):
    """A call names a procedure or routine that may not run at the destination."""

    code = "SNP-316"
    #: in the transaction that calls it
    call_no: int
    hint = (
        "To allow it, run: snaptide procedure allow SITE NAME, or register the "
        "routine on the machine that pushes. Then retry the error transaction. What a "
        "site with a grant calls can only be deleted."
    )


class ProcedureFailed(SnaptideError):
    """A deferred procedure raised an error; its transaction was not applied."""

    code = "SNP-317"
    #: in the transaction that calls it
    call_no: int
    hint = "Settle the cause, then retry; --edit CALL_NO.2=VALUE changes argument 2."


class UnknownProcedure(SnaptideError):
    """The procedure, or the type of one of its arguments, does not exist."""

    code = "SNP-318"
    hint = "Write the name as schema.procedure; the schema public may be left out."


class ProcedureEndsTransaction(SnaptideError):
    """A procedure tried to end the transaction that it was called in."""

    code = "SNP-319"
    hint = "Leave commit and rollback to the caller; begin_nested() makes savepoints."


class ProcedureEndedTransaction(SnaptideError):
    """A procedure ended all or part of the transaction that it was called in."""

    code = "SNP-324"
    hint = (
        "What it committed stays committed, and the transaction stays queued, so the "
        "next push would apply it again. Leave commit and rollback to the caller, "
        "undo at the destination what was committed, then push."
    )


class NoDestination(SnaptideError):
    """A procedure call names no destination, or one that this site does not have."""

    code = "SNP-320"  # Oracle: ORA-23301, ORA-23352
    hint = (
        "A site's destinations are the masters of its updatable snapshots; name one "
        "or more of them, each once."
    )


class NothingKnown(SnaptideError):
    """No site that answers has this table."""

    code = "SNP-321"
    hint = (
        "Write the master's table as schema.table; the schema public may be left out."
    )


class BadKey(SnaptideError):
    """This is not a value of the table's primary key."""

    code = "SNP-322"
    hint = "Give the values of all its columns in order, or each as COLUMN=VALUE."


class BothDestinations(SnaptideError):
    """A transaction is for both masters, and one of them already has its part."""

    code = "SNP-328"
    hint = (
        "Push to both masters until nothing waits, then switch again; or wait until "
        "the transactions are purged here."
    )


class BadOption(SnaptideError):
    """An option is unknown, or its value is not allowed."""

    code = "SNP-343"
    hint = "The command's --help lists its options and what they take."


class CallsQueued(SnaptideError):
    """Procedure calls are queued for the master that the snapshots leave."""

    code = "SNP-329"
    hint = "Push them there first: snaptide push SITE MASTER"


class NoMasterAnyMore(SnaptideError):
    """The group has removed this master while it was away."""

    code = "SNP-330"
    hint = (
        "To let it push its other changes, run there: snaptide group leave SITE "
        "GROUP. It can join again: empty its tables, then run snaptide group "
        "add-master --copy. This loses the changes that it had not sent: save what "
        "you need."
    )


class DestinationJoins(SnaptideError):
    """The new master does not have the rows of its group yet."""

    code = "SNP-332"
    hint = (
        "Wait until snaptide group add-master --copy ends at the master definition "
        "site; if it was interrupted, run it again."
    )
