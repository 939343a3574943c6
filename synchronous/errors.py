"""Errors of synchronous propagation: codes SNP-35x and SNP-360."""

from __future__ import annotations

from sites.errors import SnaptideError


class SynchronousConflict(SnaptideError):
    """The master's row differs from the site's old row, and no rule settles it."""

    code = "SNP-351"
    hint = "Roll back, refresh and try again, or choose a rule for this conflict."


class RefusedByMaster(SnaptideError):
    """The master refuses a change of the transaction."""

    code = "SNP-352"
    hint = (
        "Roll back. If another session holds the row, try again later; if a "
        "constraint refused the change, correct it."
    )


class PendingCalls(SnaptideError):
    """The row has changes that are waiting for a push."""

    code = "SNP-353"
    hint = "Push first (snaptide push SITE), then change it synchronously."


class TransactionControl(SnaptideError):
    """A statement would end a coordinated transaction without its coordinator."""

    code = "SNP-354"
    hint = "Leave the block of synchronous.begin, or call the session's commit."


class NoTransaction(SnaptideError):
    """The connection has no transaction that can be coordinated."""

    code = "SNP-355"
    hint = "Use an isolation level other than AUTOCOMMIT, and no two-phase transaction."


class CommitFailed(SnaptideError):
    """The transaction was rolled back at the site and all its masters."""

    code = "SNP-356"
    hint = "Nothing was changed anywhere; the transaction can be run again."


class OutcomeUnknown(SnaptideError):
    """The connection to the site was lost while it committed."""

    code = "SNP-357"
    hint = (
        "Do not run the transaction again before you know its outcome. Recovery "
        "finishes it when the site is back; see snaptide indoubt list."
    )


class NotCoordinated(SnaptideError):
    """The application's engine cannot take part in coordinated transactions."""

    code = "SNP-360"
    hint = (
        "Create it with create_engine('postgresql+psycopg://...'); it must not be "
        "async."
    )


class NotInDoubt(SnaptideError):
    """The site has no in-doubt transaction of Snaptide's with that name."""

    code = "SNP-358"
    hint = "List them with: snaptide indoubt list SITE"


class DecidedOtherwise(SnaptideError):
    """The deciding site has another decision."""

    code = "SNP-359"
    hint = (
        "Let recovery carry out that decision: snaptide indoubt recover SITE. To "
        "override it, use --force."
    )
