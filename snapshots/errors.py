"""Errors of the snapshots package: codes SNP-2xx."""

from __future__ import annotations

from sites.errors import SnaptideError

# Refresh: SNP-200 to SNP-219.


class RefreshError(SnaptideError):
    """The refresh failed; the snapshots are unchanged."""

    code = "SNP-200"  # Oracle: ORA-12008
    hint = "Correct what the message names, then refresh again."


class NoSnapshotLog(RefreshError):
    """The master table has no snapshot log."""

    code = "SNP-203"  # Oracle: ORA-12004, ORA-23413
    hint = "Create one at the master: snaptide log create MASTER TABLE"


class SnapshotLogTooYoung(RefreshError):
    """The snapshot log is younger than the last refresh and misses changes."""

    code = "SNP-204"  # Oracle: ORA-12034
    hint = "Run a complete refresh once; fast refresh works again after it."


class RefreshRunning(RefreshError):
    """Another refresh of this group is running."""

    code = "SNP-205"
    hint = "Wait until it ends; snaptide status shows it."


class PositionMoved(RefreshError):
    """The group or its master changed while it was being refreshed or altered."""

    code = "SNP-206"
    hint = "Try again."


class MassDelete(RefreshError):
    """The refresh would delete an unusually large share of a snapshot."""

    code = "SNP-207"
    hint = (
        "If the rows are really gone at the master, refresh with --allow-mass-delete "
        "(allow_mass_delete=True)."
    )


class MassLeave(MassDelete):
    """An unusually large share of a snapshot would leave it, as its condition says."""

    code = "SNP-238"
    hint = (
        "The master still has the rows, or grants them to this site no more. If they "
        "are to leave this site, refresh with --allow-mass-delete "
        "(allow_mass_delete=True)."
    )


class ErrorsAtMaster(RefreshError):
    """The master's error queue holds transactions of this site that touch the group."""

    code = "SNP-208"  # Oracle: ORA-23402
    hint = (
        "Settle them (snaptide errors list), or refresh with --refresh-after-errors "
        "(refresh_after_errors=True)."
    )


class MasterChanged(RefreshError):
    """The master is no longer the database that the group was refreshed from."""

    code = "SNP-209"
    hint = (
        "If it was restored, run: snaptide site check MASTER --repair. If the site's "
        "url leads to another database, correct the url, or drop the snapshots with "
        "--force."
    )


class WrongMethod(RefreshError):
    """This is not a refresh method."""

    code = "SNP-210"
    hint = (
        "Give one character per snapshot: f for fast, c for complete, ? for fast "
        "where possible."
    )


class DifferentGroups(RefreshError):
    """The snapshots do not all belong to one refresh group."""

    code = "SNP-211"
    hint = "Refresh one group at a time; a group shows one moment of one master."


class CannotMerge(RefreshError):
    """The refresh cannot write its changes to the snapshots."""

    code = "SNP-212"
    hint = (
        "A trigger, constraint or rule at the site refuses them; the message names it. "
        "Make a rule (CREATE RULE) a trigger."
    )


class UsersInTheWay(RefreshError):
    """Users of the site hold locks that the refresh needs."""

    code = "SNP-217"
    hint = "Refresh again; a long transaction at the site may have to end before."


class StageLost(RefreshError):
    """The staged rows of the refresh are incomplete; nothing was changed."""

    code = "SNP-213"
    hint = "The site's server may have crashed during the refresh: refresh again."


class ColumnGone(RefreshError):
    """A column of the snapshot was dropped, renamed or created again."""

    code = "SNP-214"
    hint = (
        "If snaptide ddl changed it, refresh the group: the snapshot follows. If the "
        "master has renamed or dropped it otherwise, run: snaptide snapshot alter SITE "
        "NAME --rename OLD=NEW, or --drop-column NAME. Or rename it back, or drop the "
        "snapshot and create it again."
    )


class ColumnChanged(RefreshError):
    """A column of the master table no longer fits the snapshot's column."""

    code = "SNP-243"
    hint = "Push the site's changes, then drop the snapshot and create it again."


class LensFails(RefreshError):
    """A lens of the master table has no value for a row."""

    code = "SNP-257"
    hint = (
        "Correct the row at the master, or replace the lens: snaptide shape drop, and "
        "snaptide shape map with another --back. Or have the snapshot show the new "
        "columns: snaptide snapshot alter."
    )


class MasterBehind(RefreshError):
    """The master lacks DDL of its replication group that the snapshot has."""

    code = "SNP-244"
    hint = (
        "Run snaptide group show SITE GROUP to see which master is behind. Change its "
        "table to match the definition site, then run any command of the group. "
        "Nothing is lost: the snapshot is unchanged."
    )


class RowsHidden(RefreshError):
    """Row-level security hides rows from Snaptide's database user."""

    code = "SNP-215"
    hint = (
        "A hidden row looks like a deleted row. Connect as the owner of the table, or "
        "run: ALTER ROLE USER BYPASSRLS."
    )


class KeyNotUnique(RefreshError):
    """Several rows of a master table may have the key that identifies one."""

    code = "SNP-219"
    hint = (
        "Give the rows different keys, or the table its unique key again, of columns "
        "that are NOT NULL. If others are to identify its rows, drop its snapshots and "
        "then its log (snaptide log drop MASTER TABLE), and create them again."
    )


class FirstLoadByAnother(RefreshError):
    """Only the owner of a snapshot's base table can fill it the first time."""

    code = "SNP-216"
    hint = (
        "Refresh the group once as the user who created the snapshot; from then on the "
        "role snaptide_refresh is enough."
    )


class ConditionBroken(RefreshError):
    """The master can no longer evaluate the condition of a snapshot."""

    code = "SNP-218"
    hint = (
        "Undo what was renamed or dropped at the master; or give the snapshot another "
        "condition (snaptide snapshot alter SITE NAME --where), after the same change "
        "at the site."
    )


class NotShownInTime(SnaptideError):
    """The site does not show yet what was pushed."""

    code = "SNP-457"
    hint = (
        "Refresh the groups that the message names (snaptide refresh SITE GROUP), or "
        "wait longer: snaptide schedule list SITE says when they are due."
    )
