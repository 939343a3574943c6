"""Errors of the deferred package: codes SNP-3xx."""

from __future__ import annotations

from sites.errors import SnaptideError


class QueueNotEmpty(SnaptideError):
    """Calls are queued that the master has not answered."""

    code = "SNP-301"
    hint = "Push first (snaptide push SITE), or give the calls up with --force."


class NoSuchDestination(SnaptideError):
    """Nothing at this site is queued for that destination."""

    code = "SNP-302"  # Oracle: ORA-23326
    hint = "Destinations are the masters of a site's updatable snapshots."


class DestinationDisabled(SnaptideError):
    """Propagation to this destination is disabled."""

    code = "SNP-303"  # Oracle: ORA-23354
    hint = "Enable it with: snaptide push SITE DESTINATION --enable"


class PositionMismatch(SnaptideError):
    """The destination does not stand where this site left it."""

    code = "SNP-304"
    hint = (
        "One of the two databases was restored. Nothing was applied, and what is "
        "queued stays. Run: snaptide site check, which says what to do."
    )


class PushInterrupted(SnaptideError):
    """The push stopped; what was not applied stays queued."""

    code = "SNP-305"
    hint = "It goes on where it stopped, at the next push or schedule."


class PastRetention(SnaptideError):
    """The destination was restored to before what this site still keeps."""

    code = "SNP-306"
    hint = (
        "Rows of these changes may still stand in the site's snapshots, until the "
        "next refresh: save what you need. Then go on without them: snaptide site "
        "check NAME --repair, at the site that pushes."
    )


class CannotTell(SnaptideError):
    """The destination no longer remembers which queued changes it has applied."""

    code = "SNP-307"
    hint = (
        "The backup is older than the destination's ledger. Save what is queued (view "
        "snaptide.deftran), drop the site's snapshots with --force, create them again, "
        "and enter what is missing. The page After a restore has the steps."
    )


class PushRunning(SnaptideError):
    """A push is running that this work has to wait for."""

    code = "SNP-308"
    hint = "Try again when it has ended; snaptide status shows it."


class DestinationInvalid(SnaptideError):
    """More waits for this destination than its budget allows; nothing is pushed."""

    code = "SNP-309"
    hint = (
        "Look at what waits: snaptide destination list SITE. To push it after all: "
        "snaptide destination validate SITE DESTINATION. To give it up: drop the "
        "snapshots with --force and create them again."
    )


class TransactionRefused(SnaptideError):
    """A transaction could not be applied, and the push was told to stop at it."""

    code = "SNP-310"
    hint = (
        "It and what follows stay queued. Settle the cause at the master and push "
        "again, or push with --error-action queue to park it in the error queue."
    )


class DestinationQuiet(TransactionRefused):
    """A transaction could not be applied, and the destination is quiet since."""

    code = "SNP-323"
    hint = (
        "It and what follows stay queued. Settle the cause at the destination. Then "
        "let pushes go on: snaptide push SITE DESTINATION --enable, or for all masters "
        "of a group at once: snaptide group unquiet SITE GROUP MASTER"
    )


class TooWide(SnaptideError):
    """Columns cannot be added to a queue whose rows fill more than a page."""

    code = "SNP-326"
    hint = "Suspend the group first: its queue is made anew then."


class ColumnRenamed(SnaptideError):
    """A column of a group's table has another name at one master, or has come anew."""

    code = "SNP-334"
    hint = (
        "Give it its name back there; to rename it at all masters, suspend the group "
        "and use: snaptide group execute-ddl. A column that is gone comes back when "
        "the table is taken out of the group, made alike everywhere, and added again. "
        "Nothing is lost: the changes stay queued."
    )


class TargetColumnsMoved(SnaptideError):
    """Columns of a master table have exchanged names since the last refresh."""

    code = "SNP-335"
    hint = (
        "Give the columns their names back at the master, push, change the names again "
        "and refresh. If the column that is called otherwise now is not needed, drop "
        "it: the changes go to the one that has its name. Nothing is lost: the changes "
        "stay queued."
    )


class OtherSchemaVersion(SnaptideError):
    """The two masters of a push have different versions of their group's schema."""

    code = "SNP-325"
    hint = (
        "DDL of the group may be on its way: the push goes on when it has arrived. "
        "snaptide group show SITE GROUP says who is behind; bring its tables to what "
        "they are at the definition site, then let any command of the group run. "
        "Nothing is lost: the changes stay queued."
    )


class TooManyErrors(SnaptideError):
    """As many transactions are parked as may be, and the site pushes nothing since."""

    code = "SNP-331"
    hint = (
        "Retry or delete what is parked: snaptide errors list DESTINATION. Then let "
        "pushes go on: snaptide push SITE DESTINATION --enable, for each."
    )


class NoSuchError(SnaptideError):
    """There is no such transaction in the error queue."""

    code = "SNP-311"  # Oracle: ORA-24275 and ORA-23429
    hint = "List them with: snaptide errors list SITE"


class RetryFailed(SnaptideError):
    """The transaction still cannot be applied; it stays in the error queue."""

    code = "SNP-312"
    hint = "Look with: snaptide errors show SITE ID; change it with retry --edit."


class BadEdit(SnaptideError):
    """The edit does not fit the transaction's calls."""

    code = "SNP-313"
    hint = "Write TABLE.COLUMN=VALUE, or CALL_NO.COLUMN=VALUE when several calls match."


class UnresolvedConflict(SnaptideError):
    """No rule settled a conflict; the transaction stands in the error queue."""

    code = "SNP-314"  # Oracle: ORA-23402
    hint = "Look with snaptide errors show, then retry, retry --edit or delete it."


class WaitsForError(SnaptideError):
    """The transaction depends on one that stands in the error queue."""

    code = "SNP-315"
    hint = "Settle that one first, or retry both with --with-dependants."


class PredecessorLost(SnaptideError):
    """What the transaction depends on was given up, dropped, or got another key."""

    code = "SNP-368"
    hint = (
        "The rows that it is about may be another site's. Look with snaptide errors"
        " show, then retry it by its number, with --edit if need be, or delete it."
    )


class GroupQuiet(SnaptideError):
    """The transaction touches a group that is quiet; it waits in the error queue."""

    code = "SNP-333"
    hint = (
        "When the cause is settled: snaptide group unquiet SITE GROUP MASTER "
        "--only-group"
    )


class ProcedureNotAllowed(SnaptideError):
    """A call names something that may not run at the destination."""

    code = "SNP-316"
    #: in the transaction that calls it
    call_no: int
    hint = (
        "If it is to run there: snaptide procedure allow SITE NAME, or register the "
        "routine on the machine that pushes. Then retry the error transaction."
    )


class ProcedureFailed(SnaptideError):
    """A procedure that was called raised an error; its transaction was not applied."""

    code = "SNP-317"
    #: in the transaction that calls it
    call_no: int
    hint = "Settle the cause, then retry it; --edit CALL_NO.2=VALUE changes argument 2."


class UnknownProcedure(SnaptideError):
    """There is no procedure of that name, or no type of an argument."""

    code = "SNP-318"
    hint = "Give the name as schema.procedure; the schema public may be left out."


class ProcedureEndsTransaction(SnaptideError):
    """A procedure tried to end the transaction that it was called in."""

    code = "SNP-319"
    hint = "Leave commit and rollback to the caller; begin_nested() makes savepoints."


class ProcedureEndedTransaction(SnaptideError):
    """A procedure has ended the transaction that it was called in, or part of it."""

    code = "SNP-324"
    hint = (
        "What it committed stands, and the transaction stays queued: it would be "
        "applied again. Leave commit and rollback to the caller, set right what stands "
        "at the destination, and push then."
    )


class NoDestination(SnaptideError):
    """A call of a procedure goes to no site, or to one that nothing is queued for."""

    code = "SNP-320"  # Oracle: ORA-23301, ORA-23352
    hint = "Destinations are the masters of a site's updatable snapshots, each once."


class NothingKnown(SnaptideError):
    """No site that answers knows such a table."""

    code = "SNP-321"
    hint = "Give the master's table as schema.table; the schema public may be left out."


class BadKey(SnaptideError):
    """That is not a value of the table's primary key."""

    code = "SNP-322"
    hint = "Give the values of all its columns in order, or each as COLUMN=VALUE."


class BothDestinations(SnaptideError):
    """Parts of a transaction are for both masters, and one of them has its part."""

    code = "SNP-328"
    hint = (
        "Push to both masters until nothing waits, and switch again; or wait until "
        "they are purged here."
    )


class CallsQueued(SnaptideError):
    """Calls of procedures wait for a master that is to be left."""

    code = "SNP-329"
    hint = "Push them there first: snaptide push SITE MASTER"


class NoMasterAnyMore(SnaptideError):
    """The group has forgotten this master while it was away."""

    code = "SNP-330"
    hint = (
        "What else it pushes goes on after: snaptide group leave SITE GROUP, there. It "
        "can join again: empty its tables, and snaptide group add-master --copy. What "
        "it had not sent is lost then: save what you need."
    )


class DestinationJoins(SnaptideError):
    """Nothing is pushed to a new master before it has the rows of its group."""

    code = "SNP-332"
    hint = (
        "Wait for snaptide group add-master --copy at the master definition site; cut "
        "off, it has to be said again."
    )
