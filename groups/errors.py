"""Errors of replication groups: codes SNP-5xx."""

from __future__ import annotations

from sites.errors import SnaptideError


class GroupError(SnaptideError):
    """Something about a replication group cannot be done."""

    code = "SNP-500"
    hint = "The message says what stands in the way."


class NoSuchGroup(GroupError):
    """This site is no master of a replication group of that name."""

    code = "SNP-501"  # Oracle: ORA-23373
    hint = "List what there is with: snaptide group list SITE"


class GroupExists(GroupError):
    """There is a replication group of that name already."""

    code = "SNP-502"  # Oracle: ORA-23374
    hint = "Choose another name, or drop the other one: snaptide group drop."


class NotDefinitionSite(GroupError):
    """The group is administered at another master."""

    code = "SNP-503"  # Oracle: ORA-23312
    hint = "Run the command at the master definition site, which the message names."


class CannotReplicate(GroupError):
    """The table cannot be in a replication group."""

    code = "SNP-504"  # Oracle: ORA-23308
    hint = "The message says what stands in the way. Nothing was changed."


class TablesDiffer(GroupError):
    """The table is not the same at all masters."""

    code = "SNP-505"  # Oracle: ORA-23309
    hint = "Make the tables alike, rows too, before they join. Nothing was changed."


class NoSuchMaster(GroupError):
    """That site is no master of the group."""

    code = "SNP-506"
    hint = "List the masters with: snaptide group show SITE GROUP"


class MasterExists(GroupError):
    """That site is a master of the group already."""

    code = "SNP-507"
    hint = (
        "List the masters with: snaptide group show SITE GROUP. One whose join was cut "
        "off goes on with: snaptide group add-master SITE GROUP MASTER --copy"
    )


class BadPaths(GroupError):
    """The paths do not lead every change to every master exactly once."""

    code = "SNP-508"
    hint = (
        "From each master, every other one has to be reached, and by one way only. "
        "snaptide group paths SITE GROUP shows the paths as they are."
    )


class GroupBusy(GroupError):
    """Changes of the group are still on their way."""

    code = "SNP-509"
    hint = (
        "Push them first: snaptide push SITE MASTER, at each master that is named; "
        "what is in an error queue, retry or delete: snaptide errors list MASTER"
    )


class GroupChanging(GroupError):
    """Somebody else is changing this group."""

    code = "SNP-511"
    hint = "Try again when that has ended."


class CannotDrain(GroupError):
    """Calls of the group stay queued, whatever is pushed."""

    code = "SNP-512"
    hint = (
        "Look at the destination: snaptide destination list SITE. Then suspend the "
        "group again, or resume it."
    )


class NotEmpty(GroupError):
    """The table of a master that is to be filled has rows."""

    code = "SNP-516"
    hint = "Empty it, or add the master without --copy if it has the same rows."


class NotQuiesced(GroupError):
    """The tables of the group are open to users."""

    code = "SNP-513"  # Oracle: ORA-23324
    hint = "Suspend it first: snaptide group suspend SITE GROUP"


class CannotPrepare(GroupError):
    """A master cannot promise to commit."""

    code = "SNP-514"
    hint = "Set max_prepared_transactions there, to 10 or more, and restart the server."


class DdlRefused(GroupError):
    """A master refuses the statements; nothing was changed anywhere."""

    code = "SNP-515"
    hint = "Correct them, and run them again; the group is as it was."


class OtherSchema(GroupError):
    """The masters have different versions of Snaptide's schema."""

    code = "SNP-510"
    hint = "Run snaptide site init at the older ones."


class CannotSwitch(GroupError):
    """The snapshots cannot be refreshed from that master."""

    code = "SNP-520"
    hint = (
        "The new master has to be of the same replication group as the former one, "
        "and to have the same table. Nothing was changed."
    )


class MasterAnswers(GroupError):
    """A master that is to be forgotten is there."""

    code = "SNP-521"
    hint = "Take it out with: snaptide group remove-master SITE GROUP MASTER"


class StillMaster(GroupError):
    """A site that is to leave a group by itself is one of its masters."""

    code = "SNP-522"
    hint = "Take it out with: snaptide group remove-master SITE GROUP MASTER"


class MasterJoins(GroupError):
    """The tables of a group are being copied to a new master."""

    code = "SNP-523"
    hint = (
        "Wait for snaptide group add-master; if it was cut off, say it again, or take "
        "the new master out: snaptide group remove-master SITE GROUP MASTER"
    )
