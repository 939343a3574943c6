"""Tables of the schema `snaptide` that a master uses."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from sites.catalog import SCHEMA, metadata
from sites.types import PgSnapshot, Xid8

#: One row a master table that records its changes.
snapshot_log = Table(
    "snapshot_log",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("log_table", Text, nullable=False, unique=True),
    Column("with_rowid", Boolean, nullable=False),
    Column("identity_columns", ARRAY(Text), nullable=False),
    # What this transaction has not seen was not recorded ...
    Column("created_xid", Xid8, nullable=False),
    # ... and rows of transactions before this one may have been purged. A
    # position that either is true of is too old for a fast refresh: the log is
    # "too young" for it, as ORA-12034 puts it.
    Column("horizon", Xid8, nullable=False, server_default=text("'0'::xid8")),
    Column("created_at", DateTime(timezone=True), server_default=func.now()),
    UniqueConstraint("table_schema", "table_name"),
)

#: One row a snapshot, at any site, that is refreshed from this master.
registered_snapshot = Table(
    "registered_snapshot",
    metadata,
    Column("site_id", Uuid, primary_key=True),
    Column("snapshot", Text, primary_key=True),
    Column("site_name", Text, nullable=False),
    Column("refresh_group", Text, nullable=False),
    Column(
        "log_id",
        Integer,
        ForeignKey(snapshot_log.c.id, ondelete="SET NULL"),
        index=True,
    ),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("condition", Text),
    Column("updatable", Boolean, nullable=False),
    # What the log must keep: nothing that this position has seen.
    Column("position", PgSnapshot),
    Column("registered_at", DateTime(timezone=True), server_default=func.now()),
    Column("refreshed_at", DateTime(timezone=True)),
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

#: Which method is tried in which place of the sequence.
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

#: What was decided about each conflict that a method resolved.
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
    # Which state of the rules decided, see rules_version.
    Column("rules_version", BigInteger),
    Column("reason", Text),
    Column("number", BigInteger),
    # Of the origin: which call of the transaction was in conflict.
    Column("call_no", BigInteger),
    # When the master deleted the row, where a rule asked.
    Column("deleted_at", DateTime(timezone=True)),
    Index("resolution_record_resolved_at", "resolved_at"),
)

#: One row each time that column groups, rules or what is compared changed.
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
)

#: What is compared to find conflicts, where it is not every column.
comparison = Table(
    "comparison",
    metadata,
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    # A column that is renewed at each change and compared instead of all others.
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
    # Whose old values a site does not even send.
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

#: Tables that take what comes, without a look for conflicts.
unchecked_table = Table(
    "unchecked_table",
    metadata,
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
)

#: Which version of its replication group's schema a table has here.
group_schema = Table(
    "group_schema",
    metadata,
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    # Versions of two groups, one of which may have followed the other, have no order.
    Column("group_id", Uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
)

#: Numbers that append sequence gives; none is given twice.
conflict_number = Sequence("conflict_number", metadata=metadata, schema=SCHEMA)
