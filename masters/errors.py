"""Errors of the masters package: codes SNP-1xx."""

from __future__ import annotations

from sites.errors import SnaptideError

# Rules of conflict resolution: SNP-12x.


class RuleError(SnaptideError):
    """A rule of conflict resolution cannot be used as it was given."""

    code = "SNP-120"
    hint = "Give an update rule its column group and a uniqueness rule its constraint."


class UnknownMethod(RuleError):
    """There is no resolution method of that name."""

    code = "SNP-121"
    hint = "The error lists the methods; a routine of your own goes by method custom."


class MissingParameter(RuleError):
    """The resolution method needs a parameter that was not given."""

    code = "SNP-122"
    hint = "Add the parameter that is named to the rule."


class UnknownParameter(RuleError):
    """The resolution method does not have that parameter."""

    code = "SNP-123"
    hint = "Remove it, or correct its spelling; the error lists what the method takes."


class InvalidParameter(RuleError):
    """The value given for a parameter of the resolution method does not fit."""

    code = "SNP-124"  # Oracle: ORA-23334 for a column outside the group
    hint = "A deciding column belongs to the column group that its rule decides."


class WrongColumnCount(RuleError):
    """The resolution method cannot decide a column group of that many columns."""

    code = "SNP-125"
    hint = "Give each such column a column group, and a rule, of its own."


class MethodDoesNotFit(RuleError):
    """The resolution method does not settle conflicts of that kind."""

    code = "SNP-126"
    hint = "Method custom settles every kind of conflict by a routine of your own."


class WrongColumnType(RuleError):
    """The resolution method cannot use a column of that type."""

    code = "SNP-129"
    hint = "docs/howto/choose-conflict-rules.md says which columns a method takes."


class UnknownRoutine(RuleError):
    """No routine is registered under that name on this machine."""

    code = "SNP-127"
    hint = (
        "Install the package that declares it (entry points snaptide.resolution) "
        "or name it as module:function in the configuration."
    )


class UnusableRoutine(RuleError):
    """The routine cannot be imported or called, or its name is taken."""

    code = "SNP-128"
    hint = "A routine is a plain function that takes a Conflict, returns a Resolution."


# Snapshot logs: SNP-10x.


class NoSnapshotLog(SnaptideError):
    """The table has no snapshot log."""

    code = "SNP-101"  # Oracle: ORA-23413
    hint = "Run: snaptide log create SITE TABLE"


class SnapshotLogExists(SnaptideError):
    """The table already has a snapshot log."""

    code = "SNP-102"  # Oracle: ORA-12000
    hint = "One log serves all snapshots of a table; there is nothing to do."


class SnapshotLogInUse(SnaptideError):
    """Snapshots are refreshed from this log."""

    code = "SNP-103"
    hint = "Drop those snapshots first, or use --force and refresh them completely."


class NoPrimaryKey(SnaptideError):
    """The table has no primary key by which its rows could be told apart."""

    code = "SNP-104"  # Oracle: ORA-12014
    hint = "Add a primary key, or create the log WITH ROWID (--with-rowid)."


class CannotLogTable(SnaptideError):
    """Changes of this kind of table cannot be recorded."""

    code = "SNP-105"
    hint = (
        "Snapshot logs are for ordinary and partitioned tables of the user's, whose "
        "key can be paired; any other key can have a log WITH ROWID (--with-rowid). "
        "ALTER TABLE ... SET LOGGED keeps rows after a crash. What a snapshot shows is "
        "recorded at its master: create other snapshots from there."
    )


# Apply: SNP-11x.


class InvalidNetChange(SnaptideError):
    """The calls of a transaction do not add up to one change of the row."""

    code = "SNP-110"
    hint = (
        "A trigger at the origin changed the row in a way that was not recorded. "
        "Look at the calls, correct the master by hand, then delete the error."
    )


class UnknownColumn(RuleError):
    """The table has no such column."""

    code = "SNP-131"
    hint = "Names are written as the catalog holds them, without quotes."


class UnknownColumnGroup(RuleError):
    """The table has no such column group."""

    code = "SNP-132"  # Oracle: ORA-23331
    hint = "Make it first: snaptide rules group SITE TABLE GROUP COLUMN..."


class RuleExists(RuleError):
    """There is a rule at that place of the sequence."""

    code = "SNP-133"  # Oracle: ORA-23339
    hint = "Choose another --sequence, or remove the rule that is there."


class UnknownRule(RuleError):
    """There is no such rule."""

    code = "SNP-134"
    hint = "List them with: snaptide rules list SITE"


class UnknownConstraint(RuleError):
    """The table has no such primary key, unique constraint or unique index."""

    code = "SNP-135"
    hint = "The error lists those that it has."


class BadRulebook(RuleError):
    """The file of rules cannot be read as one."""

    code = "SNP-136"
    hint = "Begin with what snaptide rules export SITE prints."


class NoSuchRecord(SnaptideError):
    """There is no such record of a resolution."""

    code = "SNP-137"
    hint = "List them with: snaptide conflicts list SITE"
