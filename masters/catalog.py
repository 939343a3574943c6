"""Tables of the schema `snaptide` that a master uses."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Sequence,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    func,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, OID

from sites.catalog import SCHEMA, metadata
from sites.transfer.types import PgSnapshot, Xid8

#: One row for each master table that records its changes.
snapshot_log = Table(
    "snapshot_log",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("log_table", Text, nullable=False, unique=True),
    Column("with_rowid", Boolean, nullable=False),
    Column("identity_columns", ARRAY(Text), nullable=False),
    # The log may lack changes for a position that has not seen this transaction ...
    Column("created_xid", Xid8, nullable=False),
    # ... or whose xmin is before this one, as rows of earlier ones may be purged: the
    # log is "too young" for a fast refresh from there, as ORA-12034 puts it.
    Column("horizon", Xid8, nullable=False, server_default=text("'0'::xid8")),
    Column("created_at", DateTime(timezone=True), server_default=func.now()),
    UniqueConstraint("table_schema", "table_name"),
)

#: One row for each snapshot, at any site, that is refreshed from this master, and for
#: each table of an image.
registered_snapshot = Table(
    "registered_snapshot",
    metadata,
    Column("site_id", Uuid, primary_key=True),
    Column("snapshot", Text, primary_key=True),
    Column("site_name", Text, nullable=False),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    # The other tables that its condition asks, by name: their logs keep changes too.
    Column("parents", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("updatable", Boolean, nullable=False),
    # The logs need not keep changes that this position has seen.
    Column("position", PgSnapshot),
    Column("refreshed_at", DateTime(timezone=True)),
)

#: One row for each image of tables of this master, until it is dropped or expires. Its
#: tables stand in registered_snapshot, with the image's id in place of a site's.
image = Table(
    "image",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column(
        "began_at", DateTime(timezone=True), nullable=False, server_default=func.now()
    ),
    # When its last slice was written; NULL before.
    Column("made_at", DateTime(timezone=True)),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

#: A named set of tables, rows and columns that sites may be given.
publication = Table(
    "publication",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    # Whether its sites follow DDL of its tables (`site_ddl`).
    Column("ddl", Boolean, nullable=False, server_default=true()),
)

#: One row for each table of a publication.
publication_table = Table(
    "publication_table",
    metadata,
    Column(
        "publication_id",
        Integer,
        ForeignKey(publication.c.id, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    # The columns that may be read; NULL for all, also those that are added later.
    Column("columns", ARRAY(Text)),
    # By column, the parameter that its value has to be.
    Column("condition", JSONB, nullable=False),
    # The foreign keys that its rows follow: `reference`, `table`, and pairs of columns.
    Column("follows", JSONB, nullable=False, server_default=text("'[]'")),
)

#: One row for each site that may read a publication.
publication_grant = Table(
    "publication_grant",
    metadata,
    Column(
        "publication_id",
        Integer,
        ForeignKey(publication.c.id, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("site_name", Text, primary_key=True),
    # The role as which the site connects.
    Column("login", Text, nullable=False),
    # The values of the parameters, as text.
    Column("parameters", JSONB, nullable=False),
    Column("granted_at", DateTime(timezone=True), server_default=func.now()),
    # Whether its pushes may change the rows that it reads.
    Column("updatable", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("publication_id", "login"),
)

#: One row for each table that DDL changed whose columns sites are to follow.
site_ddl = Table(
    "site_ddl",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    # The numbers mean something as long as the name leads to this table.
    Column("table_oid", OID, nullable=False),
    # The numbers of the columns that sites are to have as the table has them.
    Column("columns", ARRAY(SmallInteger), nullable=False),
    # Those of them that it added: a snapshot that lacks others lacks them on purpose.
    Column("added", ARRAY(SmallInteger), nullable=False),
    # Those that it dropped, but for entries from before revision 0084.
    Column("dropped", ARRAY(SmallInteger)),
    Column("statements", Text, nullable=False),
    Column("made_at", DateTime(timezone=True), server_default=func.clock_timestamp()),
    # Logins of sites do not see it: the publication of the table has no DDL.
    Column("withheld", Boolean, nullable=False, server_default=false()),
)

#: One row for each lens: expressions that put columns in place of those that are gone.
lens = Table(
    "lens",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    # The numbers mean something as long as the name leads to this table.
    Column("table_oid", OID, nullable=False),
    # A list of the number, name and type of each column that is gone, or is to be
    # dropped, and the expression that makes it from those that are there.
    Column("gone", JSONB, nullable=False),
    # By the name of a column, the expression that makes it from those that are gone.
    Column("sets", JSON, nullable=False),
    # By the names that the expressions use, the numbers of columns that are there.
    Column("columns", JSONB, nullable=False),
    # Those of them that sets use, so that sites have to show them, too.
    Column("shared", ARRAY(Text), nullable=False),
)

#: A set of columns whose conflicts are decided together.
column_group = Table(
    "column_group",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("columns", ARRAY(Text), nullable=False),
    UniqueConstraint("table_schema", "table_name", "name"),
)

#: One row for each rule: a method and its place in the sequence.
resolution_rule = Table(
    "resolution_rule",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    # A column group for update conflicts, a constraint for uniqueness
    # conflicts, empty for delete conflicts.
    Column("reference", Text, nullable=False),
    Column("sequence_no", Integer, nullable=False),
    Column("method", Text, nullable=False),
    Column("parameters", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    UniqueConstraint("table_schema", "table_name", "kind", "reference", "sequence_no"),
    CheckConstraint("kind IN ('update', 'uniqueness', 'delete')", name="kind"),
)

#: One row for each conflict that a method resolved, with the decision.
resolution_record = Table(
    "resolution_record",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column(
        "resolved_at", DateTime(timezone=True), server_default=func.clock_timestamp()
    ),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("row_key", JSONB, nullable=False),
    Column("origin", Text, nullable=False),
    Column("origin_transaction", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("reference", Text, nullable=False),
    Column("sequence_no", Integer, nullable=False),
    Column("method", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("old_values", JSONB),
    Column("new_values", JSONB),
    Column("current_values", JSONB),
    Column("result_values", JSONB),
    Column("master", Text),
    Column("changed_at", DateTime(timezone=True)),
    Column("columns", ARRAY(Text)),
    # The version of the rules that decided, see rules_version.
    Column("rules_version", BigInteger),
    Column("reason", Text),
    Column("number", BigInteger),
    # Number of the call in conflict, in the transaction at the origin.
    Column("call_no", BigInteger),
    # When the master deleted the row, if a rule asked.
    Column("deleted_at", DateTime(timezone=True)),
    Index("resolution_record_resolved_at", "resolved_at"),
    # For counting: it has an entry for each method, not for each record.
    Index("resolution_record_method", "method"),
)

#: How many records of each method were purged.
purged_resolutions = Table(
    "purged_resolutions",
    metadata,
    Column("method", Text, primary_key=True),
    Column("records", BigInteger, nullable=False),
)

#: One row for each change of column groups, rules or comparisons.
rules_version = Table(
    "rules_version",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column(
        "changed_at", DateTime(timezone=True), server_default=func.clock_timestamp()
    ),
    Column("changed_by", Text, server_default=text("SESSION_USER"), nullable=False),
    Column("what", Text, nullable=False),
    # All rules of this master from then on, as `snaptide rules export` prints them.
    Column("rules", JSONB, nullable=False),
    # The columns that they name: by oid of the table, their numbers by name.
    Column("columns", JSONB),
)

#: Which old values are compared to find conflicts, for tables where not all are.
comparison = Table(
    "comparison",
    metadata,
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    # A column that gets a new value at each change, compared instead of all others.
    Column("row_version", Text),
    Column(
        "not_at_update",
        ARRAY(Text),
        nullable=False,
        server_default=text("'{}'::text[]"),
    ),
    Column(
        "not_at_delete",
        ARRAY(Text),
        nullable=False,
        server_default=text("'{}'::text[]"),
    ),
    # Columns whose old values a site does not send.
    Column(
        "not_sent_at_update",
        ARRAY(Text),
        nullable=False,
        server_default=text("'{}'::text[]"),
    ),
    Column(
        "not_sent_at_delete",
        ARRAY(Text),
        nullable=False,
        server_default=text("'{}'::text[]"),
    ),
)

#: Tables whose changes are applied without a look for conflicts.
unchecked_table = Table(
    "unchecked_table",
    metadata,
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
)

#: The version of its replication group's schema that a table has here.
group_schema = Table(
    "group_schema",
    metadata,
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    # Versions of different groups have no order, even if one group replaced the other.
    Column("group_id", Uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
    # Its partitions when all masters were last known to have the same rows.
    Column("parts", JSONB),
)

#: Numbers that append sequence draws; none is drawn twice.
conflict_number = Sequence("conflict_number", metadata=metadata, schema=SCHEMA)

#: The ledger of numbers that this master has leased to sites, out of the sequences of
#: its tables. None is given again, and no row is purged (`masters.numbers.ledger`).
number_lease = Table(
    "number_lease",
    metadata,
    Column("site_id", Uuid, nullable=False),
    Column("site_name", Text, nullable=False),
    # Of the site: a restored or copied database has no use of it.
    Column("incarnation", Uuid, nullable=False),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("column_name", Text, nullable=False),
    # As the catalog prints it, with its schema: several columns may share one.
    Column("sequence", Text, primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("leased_at", DateTime(timezone=True), server_default=func.now()),
    # The site gave back what it had not used from this number on.
    Column("returned_from", BigInteger),
)

#: One row for each column of a snapshot here whose default gives numbers or ids.
numbered_column = Table(
    "numbered_column",
    metadata,
    # Its tickets are drawn from the sequence snaptide.numbers_<id>.
    Column("id", Integer, Identity(), primary_key=True),
    Column("snapshot", Text, nullable=False),
    Column("column_name", Text, nullable=False),
    Column("method", Text, nullable=False),
    # The site that leases the numbers, and the table and column there.
    Column("master", Text, nullable=False),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    # How many numbers a lease has: with fewer left, the next contact brings another.
    Column("size", BigInteger, nullable=False, server_default=text("1000")),
    # How many were used a day, up to this time and ticket.
    Column("per_day", Double, nullable=False, server_default=text("0")),
    Column("measured_at", DateTime(timezone=True), server_default=func.now()),
    Column("measured_ticket", BigInteger, nullable=False, server_default=text("0")),
    # The incarnation of the master that has all leases of this site in its ledger.
    Column("told_to", Uuid),
    # Why the last contact brought no numbers.
    Column("last_error", Text),
    UniqueConstraint("snapshot", "column_name"),
    CheckConstraint("method IN ('lease', 'uuidv7')", name="method"),
)

#: Numbers that this site may use: a draw takes a ticket, and the ticket's range says
#: which number that is. So no number comes twice, without a lock.
number_range = Table(
    "number_range",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column(
        "column_id",
        Integer,
        ForeignKey(numbered_column.c.id, ondelete="CASCADE"),
        nullable=False,
    ),
    Column("from_ticket", BigInteger, nullable=False),
    Column("to_ticket", BigInteger, nullable=False),
    # The number of the first ticket, and the difference to that of the next one.
    Column("first", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("master_id", Uuid, nullable=False),
    # The ticket at which users are warned that numbers run out, if it is in here.
    Column("warn_at", BigInteger),
    # The site was restored or copied since: it may have used these numbers already.
    Column("void", Boolean, nullable=False, server_default=text("false")),
    Index("number_range_tickets", "column_id", "from_ticket"),
)
