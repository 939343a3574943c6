"""Errors of synchronous propagation: codes SNP-35x and SNP-360."""

from __future__ import annotations

from sites.errors import SnaptideError


class SynchronousConflict(SnaptideError):
    """The master's row is not what the site's was, and no rule settles that."""

    code = "SNP-351"
    hint = "Roll back, refresh, and try again; or choose a rule for this conflict."


class RefusedByMaster(SnaptideError):
    """The master refuses what the site has done."""

    code = "SNP-352"
    hint = (
        "Roll back. Rows that others hold are free later; constraints say what to do."
    )


class PendingCalls(SnaptideError):
    """The row has changes that wait for a push."""

    code = "SNP-353"
    hint = "Push first (snaptide push SITE), then change it synchronously."


class TransactionControl(SnaptideError):
    """A statement would end a coordinated transaction past its coordinator."""

    code = "SNP-354"
    hint = "Leave the block of synchronous.begin, or use the session's commit."


class NoTransaction(SnaptideError):
    """A connection has no transaction that can be coordinated."""

    code = "SNP-355"
    hint = "Choose an isolation level other than AUTOCOMMIT, and no two phases."


class CommitFailed(SnaptideError):
    """The transaction was rolled back at the site and all its masters."""

    code = "SNP-356"
    hint = "Nothing was changed anywhere; the transaction can be run again."


class OutcomeUnknown(SnaptideError):
    """The site was lost while it committed."""

    code = "SNP-357"
    hint = (
        "Do not run it again before you know. Recovery finishes it when the site is "
        "back; see snaptide indoubt list."
    )


class NotCoordinated(SnaptideError):
    """An engine of an application's cannot take part in coordinated transactions."""

    code = "SNP-360"
    hint = "Make it with create_engine('postgresql+psycopg://...'); not an async one."


class NotInDoubt(SnaptideError):
    """Nothing of ours is in doubt at this site under that name."""

    code = "SNP-358"
    hint = "List what is with: snaptide indoubt list SITE"


class DecidedOtherwise(SnaptideError):
    """The deciding site says something else."""

    code = "SNP-359"
    hint = "Recovery will do what it says: snaptide indoubt recover SITE. Or --force."
