"""Errors of the snapshots package: codes SNP-2xx."""

from __future__ import annotations

from sites.errors import SnaptideError

# Refresh: SNP-200 to SNP-219.


class RefreshError(SnaptideError):
    """The refresh could not be done; the snapshots are as they were."""

    code = "SNP-200"  # Oracle: ORA-12008
    hint = "Look at the message, put right what it names, and refresh again."


class NoSnapshotLog(RefreshError):
    """The master table has no snapshot log."""

    code = "SNP-203"  # Oracle: ORA-12004, ORA-23413
    hint = "Create one at the master: snaptide log create MASTER TABLE"


class SnapshotLogTooYoung(RefreshError):
    """The snapshot log is younger than the last refresh: changes would be missed."""

    code = "SNP-204"  # Oracle: ORA-12034
    hint = "Run a complete refresh once; fast refresh works again after it."


class RefreshRunning(RefreshError):
    """This refresh group is being refreshed already."""

    code = "SNP-205"
    hint = "Wait for the refresh that runs; snaptide status shows it."


class PositionMoved(RefreshError):
    """Another refresh of the group came in between."""

    code = "SNP-206"
    hint = "Refresh again."


class MassDelete(RefreshError):
    """The refresh would delete an unusually large share of a snapshot."""

    code = "SNP-207"
    hint = (
        "If the rows are really gone at the master, refresh with --allow-mass-delete "
        "(allow_mass_delete=True)."
    )


class ErrorsAtMaster(RefreshError):
    """The master's error queue holds transactions of this site that touch the group."""

    code = "SNP-208"  # Oracle: ORA-23402
    hint = (
        "Settle them (snaptide errors list), or refresh with refresh_after_errors=True."
    )


class MasterChanged(RefreshError):
    """The master is no longer the database that the group was refreshed from."""

    code = "SNP-209"
    hint = (
        "If it was restored, run: snaptide site check MASTER --repair. If the name "
        "leads to another site now, correct its url, or drop the snapshots."
    )


class WrongMethod(RefreshError):
    """That is not a refresh method."""

    code = "SNP-210"
    hint = (
        "Give one character per snapshot: f fast, c complete, ? whichever is possible."
    )


class DifferentGroups(RefreshError):
    """The snapshots do not all belong to one refresh group."""

    code = "SNP-211"
    hint = "Refresh one group at a time; a group shows one moment of one master."


class CannotMerge(RefreshError):
    """The differences cannot be written to the snapshots, whatever is held back."""

    code = "SNP-212"
    hint = "A trigger or constraint at the site refuses them; the message names it."


class StageLost(RefreshError):
    """The staged rows are not those that were written; nothing was changed."""

    code = "SNP-213"
    hint = "The site's server may have crashed in between: refresh again."


class ColumnGone(RefreshError):
    """A column that the snapshot carries was dropped or renamed."""

    code = "SNP-214"
    hint = "Rename it back, or drop the snapshot and create it again."


class ColumnChanged(RefreshError):
    """A column of the master table has another type, whose values might be rounded."""

    code = "SNP-243"
    hint = "Push what the site has, then drop the snapshot and create it again."


class MasterBehind(RefreshError):
    """The master lacks DDL of its replication group that the snapshot has seen."""

    code = "SNP-244"
    hint = (
        "snaptide group show SITE GROUP says who is behind; bring the table there to "
        "what it is at the definition site, then let any command of the group run. "
        "Nothing is lost: the snapshot stays as it is."
    )


class RowsHidden(RefreshError):
    """Row-level security hides rows from the user that Snaptide connects as."""

    code = "SNP-215"
    hint = (
        "A row that is hidden looks like one that is gone. Connect as the owner of "
        "the table, or: ALTER ROLE USER BYPASSRLS."
    )


class FirstLoadByAnother(RefreshError):
    """Only the owner of a snapshot's base table can fill it the first time."""

    code = "SNP-216"
    hint = (
        "Refresh the group once as the user who created the snapshot; from then on the "
        "role snaptide_refresh is enough."
    )


# Creation and definition: SNP-220 to SNP-249.


class SnapshotRefused(SnaptideError):
    """A snapshot like this cannot be kept."""

    code = "SNP-220"
    hint = "The message says which part of the definition stands in the way."


class UnknownSnapshot(SnaptideError):
    """There is no snapshot of that name at this site."""

    code = "SNP-221"  # Oracle: ORA-12003
    hint = "snaptide snapshot list shows those that there are."


class NameTaken(SnapshotRefused):
    """The site has a table or view of that name already."""

    code = "SNP-222"
    hint = "Choose another name for the snapshot, or drop what has it."


class MixedMasters(SnapshotRefused):
    """The refresh group has another master."""

    code = "SNP-223"
    hint = "A refresh group has exactly one master site: use another group."


class UnknownColumn(SnapshotRefused):
    """The master table has no such column."""

    code = "SNP-224"
    hint = "Names are compared as they stand in the catalog, case included."


class IdentityLeftOut(SnapshotRefused):
    """The columns that identify a row have to be part of the snapshot."""

    code = "SNP-225"
    hint = "Add the columns that are named to the list of columns."


class ColumnsLeftOut(SnapshotRefused):
    """An updatable snapshot leaves out columns that an insert has to fill."""

    code = "SNP-226"
    hint = "Include them, or give them a default at the master, or make them nullable."


class CannotPark(SnapshotRefused):
    """A unique key has no value that can be freed for a moment."""

    code = "SNP-227"
    hint = (
        "Make one of its columns nullable, or of an integer, text or uuid type, or "
        "leave one of them out of the snapshot."
    )


class UnusableTable(SnapshotRefused):
    """That kind of relation cannot be the master of a snapshot."""

    code = "SNP-228"
    hint = (
        "Masters are tables and partitioned tables that outlive a crash, and the base "
        "table of no snapshot: create this one from the master of that one."
    )


class MissingAtSite(SnapshotRefused):
    """The site lacks a type, function, collation or schema that the snapshot needs."""

    code = "SNP-229"
    hint = "Create it at the site, with the same schema and name as at the master."


class DifferentTypes(SnapshotRefused):
    """A type or collation of that name is another at the site than at the master."""

    code = "SNP-230"
    hint = "Make it the same at both: labels in the same order, the same checks."


class UnreadableType(SnapshotRefused):
    """Values of that type cannot be brought to another database."""

    code = "SNP-231"
    hint = "Leave the column out of the snapshot."


class CannotPropagate(SnaptideError):
    """The master cannot take part in transactions of others."""

    code = "SNP-242"
    hint = (
        "At the master: ALTER SYSTEM SET max_prepared_transactions = 64, restart, no "
        "pooler in transaction mode on the way. Of another version: snaptide site init."
    )


class HiddenRows(SnapshotRefused):
    """Row-level security hides rows of the master table from Snaptide's user."""

    code = "SNP-232"
    hint = (
        "Connect to the master as the owner of the table, or: ALTER ROLE USER "
        "BYPASSRLS. A condition (--where) chooses the rows of a snapshot."
    )


class TooWide(SnapshotRefused):
    """The table has more, or larger, columns than a snapshot of it can hold."""

    code = "SNP-233"
    hint = "Leave out columns (--columns), or make a read-only snapshot."


class KeyGenerated(SnapshotRefused):
    """An updatable snapshot cannot send what its master computes by itself."""

    code = "SNP-234"
    hint = "Create the snapshot log WITH ROWID: rows are told apart by that."


class UndeliveredCalls(SnaptideError):
    """The snapshot has changes that the master has not received yet."""

    code = "SNP-240"
    hint = "Push them first (snaptide push), or drop with --force and lose them."


class MasterUnreachable(SnaptideError):
    """The master cannot be told that the snapshot is gone."""

    code = "SNP-241"
    hint = (
        "Drop with --force; unregister it at the master when it is back, or its log "
        "keeps rows for a snapshot that no longer exists."
    )
