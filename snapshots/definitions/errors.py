"""Errors of creating snapshots, and of what they are: codes SNP-220 to SNP-259."""

from __future__ import annotations

from sites.errors import SnaptideError


class SnapshotRefused(SnaptideError):
    """This snapshot cannot be created."""

    code = "SNP-220"
    hint = "Change the part of the definition that the message names."


class UnknownSnapshot(SnaptideError):
    """This site has no snapshot with that name."""

    code = "SNP-221"  # Oracle: ORA-12003
    hint = "List its snapshots with: snaptide snapshot list SITE"


class NameTaken(SnapshotRefused):
    """The site already has a table or view with that name."""

    code = "SNP-222"
    hint = "Choose another name for the snapshot, or drop the table or view."


class MixedMasters(SnapshotRefused):
    """The refresh group has another master."""

    code = "SNP-223"
    hint = "A refresh group has exactly one master site: use another group."


class UnknownColumn(SnapshotRefused):
    """The master table has no such column."""

    code = "SNP-224"
    hint = (
        "Write names exactly as the catalog holds them, including upper and lower case."
    )


class IdentityLeftOut(SnapshotRefused):
    """The snapshot must include the columns that identify a row."""

    code = "SNP-225"
    hint = "Add the columns that the message names to the list of columns."


class ColumnsLeftOut(SnapshotRefused):
    """An updatable snapshot leaves out columns that an insert must fill."""

    code = "SNP-226"
    hint = "Include them, give them a default at the master, or make them nullable."


class CannotPark(SnapshotRefused):
    """Snaptide cannot give a unique key a temporary value."""

    code = "SNP-227"
    hint = (
        "Make one of its columns nullable, or of an integer, text or uuid type, or "
        "leave one of them out of the snapshot."
    )


class UnusableTable(SnapshotRefused):
    """A snapshot cannot have this kind of relation as its master."""

    code = "SNP-228"
    hint = (
        "The master must be an ordinary or partitioned table, neither UNLOGGED nor "
        "TEMPORARY. If it is the base table of a snapshot, use that snapshot's master "
        "instead. If it has a rule (CREATE RULE ... DO INSTEAD), make that a trigger, "
        "or make a read-only snapshot. The collations of keys, unique values and "
        "foreign keys must be deterministic."
    )


class MissingAtSite(SnapshotRefused):
    """The site lacks a type, function, collation or schema that the snapshot needs."""

    code = "SNP-229"
    hint = "Create it at the site, with the same schema and name as at the master."


class DifferentTypes(SnapshotRefused):
    """A type or collation at the site differs from the one at the master."""

    code = "SNP-230"
    hint = "Make the two the same: labels in the same order, the same checks."


class UnreadableType(SnapshotRefused):
    """Values of this type cannot be copied to another database."""

    code = "SNP-231"
    hint = "Leave the column out of the snapshot."


class CannotPropagate(SnaptideError):
    """The master cannot take part in synchronous propagation."""

    code = "SNP-242"
    hint = (
        "At the master, run ALTER SYSTEM SET max_prepared_transactions = 64 and "
        "restart the server; connect to it without a pooler in transaction mode."
    )


class HiddenRows(SnapshotRefused):
    """Row-level security hides rows of the master table from Snaptide's user."""

    code = "SNP-232"
    hint = (
        "Connect to the master as the owner of the table, or run: ALTER ROLE USER "
        "BYPASSRLS. To select the rows of a snapshot, use a condition (--where)."
    )


class BeyondGrant(SnapshotRefused):
    """The snapshot needs more than a publication grants to its site."""

    code = "SNP-291"
    hint = (
        "Leave out --where, name the columns that are granted (--columns), and the "
        "parents that the message names (--follow), or none: the master chooses the "
        "rows. For --updatable, the grant has to "
        "be updatable, too. For more, the site needs a user at the master that is no "
        "login of a publication."
    )


class TooWide(SnapshotRefused):
    """The table has more or larger columns than a snapshot can hold."""

    code = "SNP-233"
    hint = "Leave out columns (--columns), or make a read-only snapshot."


class KeyGenerated(SnapshotRefused):
    """An updatable snapshot cannot send values that its master generates."""

    code = "SNP-234"
    hint = (
        "Create the snapshot log WITH ROWID (--with-rowid): a rowid then identifies "
        "the rows."
    )


class NotByKey(SnapshotRefused):
    """A subquery of the condition finds its row by other columns than the key."""

    code = "SNP-235"
    hint = (
        "Compare exactly the columns by which the snapshot log of that table "
        "identifies rows: usually its primary key."
    )


class NeedsParent(SnapshotRefused):
    """An updatable snapshot needs a snapshot of each table that its condition asks."""

    code = "SNP-236"
    hint = (
        "Create that one first, in the same refresh group (--group) and with these "
        "columns, or make this one read-only."
    )


class SeveralParents(NeedsParent):
    """The group has several snapshots of a table that a snapshot is to follow."""

    code = "SNP-256"
    hint = (
        "--follow takes the one that is called like the table. To follow another one, "
        'name its rows: --where "EXISTS (SELECT FROM parent p WHERE p.id = parent_id '
        'AND ...)".'
    )


class NoSuchReference(SnapshotRefused):
    """The master table has no such foreign key that a snapshot could follow."""

    code = "SNP-237"
    hint = (
        "Name a foreign key of the master table: by its parent, its column or its name."
    )


class UnknownPolicy(SnapshotRefused):
    """There is no such policy for rows that leave a snapshot."""

    code = "SNP-239"
    hint = "Leave --leaving out for drain, or give one of those that the message lists."


class ColumnsRefused(SnapshotRefused):
    """The columns of the snapshot cannot be altered in this way."""

    code = "SNP-248"
    hint = (
        "The message says what stands in the way. If it has to be, push, drop the "
        "snapshot and create it again."
    )


class CallsUseColumn(ColumnsRefused):
    """Changes wait for a column that the master table, made anew, does not have."""

    code = "SNP-249"
    hint = (
        "Have the master add the column again, with its type; refresh, push, and drop "
        "it here before it is dropped there."
    )


class ChangeWithdrawn(SnaptideError):
    """A change was withdrawn from the queue, because its row left the snapshot."""

    code = "SNP-247"
    hint = (
        "Look at it with snaptide errors show SITE ID. Then put it back into the queue "
        "(snaptide errors retry), or delete it (snaptide errors delete)."
    )


class NothingToHold(SnapshotRefused):
    """The policy for rows that leave needs changes of users, who can make none here."""

    code = "SNP-245"
    hint = "Make the snapshot updatable (--updatable), or leave --leaving out."


class UndeliveredCalls(SnaptideError):
    """The snapshot has changes that the master has not received yet."""

    code = "SNP-240"
    hint = "Push them first (snaptide push), or drop with --force and lose them."


class RowsKept(SnaptideError):
    """Rows that have left the snapshot are kept at this site."""

    code = "SNP-246"
    hint = (
        "Look at them (snaptide snapshot kept SITE NAME) and remove them (snaptide "
        "snapshot remove-kept SITE NAME --all), or drop with --force and lose them."
    )


class MasterUnreachable(SnaptideError):
    """Snaptide cannot reach the master to unregister the snapshot.

    Or its name leads to another database.
    """

    code = "SNP-241"
    hint = (
        "If the master was restored, or a standby has taken over, run first: snaptide "
        "site check MASTER --repair. Otherwise drop with --force. When the master is "
        "back, run: snaptide log unregister MASTER SITE SNAPSHOT. Until then its log "
        "keeps rows for a snapshot that no longer exists."
    )


# Numbers of a site's own: SNP-250 to SNP-259.


class NumbersRefused(SnapshotRefused):
    """The column cannot get its values in this way."""

    code = "SNP-250"
    hint = (
        "Give lease for a whole number that the master draws from a sequence, uuidv7 "
        "for a uuid, or none."
    )


class TooManyNumbers(SnaptideError):
    """A lease that is asked for by hand is larger than a master draws at once."""

    code = "SNP-252"
    hint = "Ask for fewer numbers, or several times."


class NoSuchNumbers(SnaptideError):
    """No column of that name draws numbers at the site."""

    code = "SNP-251"
    hint = (
        "Name it as TABLE.COLUMN; snaptide numbers list SITE shows those that there "
        "are. snaptide snapshot alter SITE TABLE --numbers COLUMN=lease makes one."
    )
