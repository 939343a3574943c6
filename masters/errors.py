"""Errors of the masters package: codes SNP-1xx."""

from __future__ import annotations

from sites.errors import SnaptideError

# Rules of conflict resolution: SNP-12x.


class RuleError(SnaptideError):
    """The conflict resolution rule is not valid."""

    code = "SNP-120"
    hint = "Give an update rule its column group and a uniqueness rule its constraint."


class UnknownMethod(RuleError):
    """There is no resolution method with that name."""

    code = "SNP-121"
    hint = (
        "Use one of the methods that the message lists; a routine of your own needs "
        "method custom."
    )


class MissingParameter(RuleError):
    """The resolution method needs a parameter that was not given."""

    code = "SNP-122"
    hint = "Add the parameter that the message names to the rule."


class UnknownParameter(RuleError):
    """The resolution method does not have that parameter."""

    code = "SNP-123"
    hint = "Remove it or correct its spelling; the message lists the known parameters."


class InvalidParameter(RuleError):
    """The value given for a parameter of the resolution method does not fit."""

    code = "SNP-124"  # Oracle: ORA-23334 for a column outside the group
    hint = (
        "The message says what the parameter must be; a deciding column must belong "
        "to the column group of its rule."
    )


class WrongColumnCount(RuleError):
    """The resolution method cannot decide a column group of that many columns."""

    code = "SNP-125"
    hint = "Give each such column a column group, and a rule, of its own."


class MethodDoesNotFit(RuleError):
    """The resolution method does not settle this kind of conflict."""

    code = "SNP-126"
    hint = (
        "Choose another method; method custom settles every kind of conflict with a "
        "routine of your own."
    )


class WrongColumnType(RuleError):
    """The resolution method cannot use a column of this type."""

    code = "SNP-129"
    hint = "docs/howto/choose-conflict-rules.md says which columns a method takes."


class UnknownRoutine(RuleError):
    """No routine is registered with that name on this machine."""

    code = "SNP-127"
    hint = (
        "Install the package that declares it (entry points snaptide.resolution) "
        "or name it as module:function in the configuration."
    )


class UnusableRoutine(RuleError):
    """The routine cannot be imported or called, or its name is taken."""

    code = "SNP-128"
    hint = (
        "A routine is a plain function that takes a Conflict and returns a Resolution."
    )


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
    """The table has no primary key to identify its rows."""

    code = "SNP-104"  # Oracle: ORA-12014
    hint = "Add a primary key, or create the log WITH ROWID (--with-rowid)."


class CannotLogTable(SnaptideError):
    """Snaptide cannot record the changes of this table."""

    code = "SNP-105"
    hint = (
        "Create the log on an ordinary or partitioned table of yours. If the key's "
        "type has no operator = that pairs rows, create it WITH ROWID (--with-rowid). "
        "If the table is UNLOGGED, run ALTER TABLE ... SET LOGGED. If it is the base "
        "table of a snapshot, create other snapshots from that snapshot's master. If a "
        "collation is not deterministic, give the column another one, or its table a "
        "unique index on an expression instead, such as lower(column)."
    )


class PartUnrecorded(SnaptideError):
    """A part of a master table lacks triggers of the snapshot log, or has them off."""

    code = "SNP-106"
    hint = (
        "Run the statements that the message names at the master, as the owner of the "
        "part. So that new parts get their triggers at once, have a superuser run once "
        "what `snaptide log repair SITE --print` prints. If triggers were off, then "
        "refresh all snapshots of the table completely: nobody knows what was changed "
        "meanwhile."
    )


class DdlRefused(SnaptideError):
    """DDL was refused; nothing was changed anywhere."""

    code = "SNP-107"
    hint = "Correct the statements, and run them again; the tables are as they were."


class CannotPartition(SnaptideError):
    """A column cannot be a partition column of a snapshot log."""

    code = "SNP-108"
    hint = (
        "Choose up to three columns that conditions compare with constants, of types "
        "that have a hash. Without them, each refresh reads all changed keys."
    )


# Apply: SNP-11x.


class InvalidNetChange(SnaptideError):
    """The calls of a transaction do not add up to one change of the row."""

    code = "SNP-110"
    hint = (
        "A trigger at the origin changed the row in a way that was not recorded. Look "
        "at the calls, correct the master by hand, then delete the error."
    )


class UnknownColumn(RuleError):
    """The table has no such column."""

    code = "SNP-131"
    hint = "Write names as the catalog holds them, without quotes."


class UnknownColumnGroup(RuleError):
    """The table has no such column group."""

    code = "SNP-132"  # Oracle: ORA-23331
    hint = "Create it first: snaptide rules group SITE TABLE GROUP COLUMN..."


class RuleExists(RuleError):
    """A rule with that sequence number already exists."""

    code = "SNP-133"  # Oracle: ORA-23339
    hint = "Choose another --sequence, or remove the existing rule."


class UnknownRule(RuleError):
    """There is no such rule."""

    code = "SNP-134"
    hint = "List them with: snaptide rules list SITE"


class UnknownConstraint(RuleError):
    """The table has no such primary key, unique constraint or unique index."""

    code = "SNP-135"
    hint = "Use one of the constraints that the message lists."


class BadRulebook(RuleError):
    """The file is not a valid file of rules."""

    code = "SNP-136"
    hint = "Start from the output of: snaptide rules export SITE"


class NoSuchRecord(SnaptideError):
    """There is no resolution record with that number."""

    code = "SNP-137"
    hint = "List them with: snaptide conflicts list SITE"


class UnknownImage(SnaptideError):
    """The master keeps its logs for no such image."""

    code = "SNP-111"
    hint = "List those that there are with: snaptide image list SITE"


class ImageNameTaken(SnaptideError):
    """The master has another image of that name, or cannot hold the name."""

    code = "SNP-112"
    hint = "Choose another name (--name), or run: snaptide image drop SITE NAME"


# Lenses: SNP-113 to SNP-119.


class LensRefused(SnaptideError):
    """The lens cannot be declared; nothing was changed."""

    code = "SNP-113"
    hint = (
        "The message says what is wrong. Expressions of --set may use the columns that "
        "are gone and those that stay, expressions of --back those that are there."
    )


class LensOfGroup(LensRefused):
    """Tables of a replication group cannot have lenses."""

    code = "SNP-114"
    hint = (
        "Have all sites follow the change of columns before the old ones are dropped: "
        "snaptide group execute-ddl --and-sites."
    )


class UnknownLens(SnaptideError):
    """The table has no such lens."""

    code = "SNP-115"
    hint = "List those that there are with: snaptide shape list SITE TABLE"


class LensInUse(SnaptideError):
    """Sites may have changes that need the lens."""

    code = "SNP-116"
    hint = (
        "Have them push, and retry what is parked; or take it away all the same with "
        "--force: changes of the columns that are gone are parked from then on."
    )


# Numbers that sites lease: SNP-14x.


class CannotLease(SnaptideError):
    """The numbers of the column cannot be leased to a site."""

    code = "SNP-140"
    hint = (
        "The message says why, and what to do about it. Until then sites have to give "
        "a number with each row that they insert."
    )


class NumbersUsedUp(SnaptideError):
    """The master has no more numbers for the column."""

    code = "SNP-141"
    hint = (
        "At the master, give the column a larger type (ALTER TABLE ... TYPE bigint), "
        "and its sequence more room (ALTER SEQUENCE ... AS bigint)."
    )


class SequenceBehind(SnaptideError):
    """The sequence is far behind the numbers that sites have leased from it."""

    code = "SNP-142"
    hint = (
        "It was set back, or the master was restored. Run the statement of the message "
        "at the master while nobody inserts there."
    )


# Publications and grants: SNP-15x.


class TablePublished(SnaptideError):
    """The table is in a publication, whose policies need its log as it is."""

    code = "SNP-158"
    hint = "Take the table out of its publications first: snaptide publication alter"


class TableAltered(SnaptideError):
    """A master table was altered after its changes were prepared."""

    code = "SNP-253"
    hint = (
        "Run the command again, or repeat the transaction: it then sees the table as "
        "it is now. A push does this by itself. Nothing was applied."
    )


class RulesMoved(SnaptideError):
    """A column of a master table is another one than its rules were made for."""

    code = "SNP-255"
    hint = (
        "Give the columns their old names at the master; or set the column groups, "
        "rules and comparisons that name them again, for the columns that have these "
        "names now. Nothing is lost: changes stay queued, or parked."
    )
