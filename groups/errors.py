"""Errors of replication groups: codes SNP-5xx."""

from __future__ import annotations

from sites.errors import SnaptideError


class GroupError(SnaptideError):
    """The command for the replication group cannot be carried out."""

    code = "SNP-500"
    hint = "Correct what the message names, then run the command again."


class NoSuchGroup(GroupError):
    """The site is not a master of a replication group with that name."""

    code = "SNP-501"  # Oracle: ORA-23373
    hint = "List the site's groups with: snaptide group list SITE"


class GroupExists(GroupError):
    """A replication group with that name already exists."""

    code = "SNP-502"  # Oracle: ORA-23374
    hint = "Choose another name, or drop the other group: snaptide group drop"


class NotDefinitionSite(GroupError):
    """The group is administered at another master."""

    code = "SNP-503"  # Oracle: ORA-23312
    hint = "Run the command at the master definition site, which the message names."


class CannotReplicate(GroupError):
    """The replication group does not allow this for the table or master."""

    code = "SNP-504"  # Oracle: ORA-23308
    hint = "The message says why. Nothing was changed."


class TablesDiffer(GroupError):
    """The table is not the same at all masters."""

    code = "SNP-505"  # Oracle: ORA-23309
    hint = (
        "Make the table and its rows the same at all masters, then run the command "
        "again. Nothing was changed."
    )


class NoSuchMaster(GroupError):
    """That site is not a master of the group."""

    code = "SNP-506"
    hint = "List the masters with: snaptide group show SITE GROUP"


class MasterExists(GroupError):
    """That site is already a master of the group."""

    code = "SNP-507"
    hint = (
        "List the masters with: snaptide group show SITE GROUP. To continue an "
        "interrupted join, run: snaptide group add-master SITE GROUP MASTER --copy"
    )


class BadPaths(GroupError):
    """The paths do not lead every change to every master exactly once."""

    code = "SNP-508"
    hint = (
        "Each master must reach every other one, and in only one way. snaptide group "
        "paths SITE GROUP shows the current paths."
    )


class GroupBusy(GroupError):
    """Changes of the group are still waiting."""

    code = "SNP-509"
    hint = (
        "Push them first: snaptide push SITE MASTER, at each master that the message "
        "names. Retry or delete transactions in an error queue: snaptide errors list "
        "MASTER"
    )


class GroupChanging(GroupError):
    """Another command is changing this group."""

    code = "SNP-511"
    hint = "Try again when it has ended."


class CannotDrain(GroupError):
    """Calls of the group stay queued after every push."""

    code = "SNP-512"
    hint = (
        "Look at the destination: snaptide destination list SITE. Then suspend the "
        "group again, or resume it."
    )


class NotEmpty(GroupError):
    """The table that a join would fill already has rows."""

    code = "SNP-516"
    hint = "Empty it, or add the master without --copy if it has the same rows."


class NotQuiesced(GroupError):
    """The group is not quiesced: its tables are open to users."""

    code = "SNP-513"  # Oracle: ORA-23324
    hint = "Suspend it first: snaptide group suspend SITE GROUP"


class CannotPrepare(GroupError):
    """A master cannot prepare transactions."""

    code = "SNP-514"
    hint = "Set max_prepared_transactions there, to 10 or more, and restart the server."


class CannotSwitch(GroupError):
    """The snapshots cannot be refreshed from that master."""

    code = "SNP-520"
    hint = (
        "The new master must be in the same replication group as the former one and "
        "have the same table. Nothing was changed."
    )


class MasterAnswers(GroupError):
    """The master to forget still answers."""

    code = "SNP-521"
    hint = "Take it out with: snaptide group remove-master SITE GROUP MASTER"


class StillMaster(GroupError):
    """The site cannot leave the group by itself: it is still one of its masters."""

    code = "SNP-522"
    hint = "Take it out with: snaptide group remove-master SITE GROUP MASTER"


class MasterJoins(GroupError):
    """The tables of a group are being copied to a new master."""

    code = "SNP-523"
    hint = (
        "Wait until snaptide group add-master ends; if it was interrupted, run it "
        "again, or take the new master out: snaptide group remove-master SITE GROUP "
        "MASTER"
    )


class CheckDisturbed(GroupError):
    """The group or one of its queues changed again and again during the check."""

    code = "SNP-524"
    hint = "Run the check again when commands that change the group have ended."


class MasterUnreadable(GroupError):
    """The user of a master's URL may not read a table that a check compares."""

    code = "SNP-525"
    hint = (
        "A check reads all rows of all masters. Have the URL of the master that the "
        "message names name the user who ran snaptide site init there, not the login "
        "of a site; or run there: GRANT SELECT ON TABLE TO USER."
    )


class DecidedElsewhere(GroupError):
    """An interrupted change was decided by a database that has lost its name."""

    code = "SNP-526"
    hint = (
        "Correct the url of that site in snaptide.toml, so that it leads to the "
        "database that began the change. If that one is lost, roll the transaction "
        "back: snaptide group leave SITE GROUP --force. Where the site does not know "
        "the group yet, GROUP is the id that the message has."
    )
