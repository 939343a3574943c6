"""Catalog tables of the error queue, in the schema `snaptide`, at each destination."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from sites.catalog import metadata
from sites.transfer.encodings import AllText, AllTextBinary

#: The reason of a transaction that its own site took out of its queue.
WITHDRAWN = "withdrawn"

#: The reason of one that gives a value to a column which its master has dropped.
COLUMN_GONE = "column gone"
#: The revision of the schema from which on it is one.
COLUMN_GONE_SINCE = "0073"

#: The error queue: whole transactions that could not be applied.
error_transaction = Table(
    "error_transaction",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("origin_id", Uuid, nullable=False, index=True),
    Column("origin", Text, nullable=False),
    Column("origin_transaction", Text, nullable=False),
    Column("origin_user", Text, nullable=False),
    Column("batch_no", BigInteger, nullable=False),
    Column("order_no", BigInteger, nullable=False),
    Column("start_time", DateTime(timezone=True)),
    # By id of a replication group, the master at which it began: a retry goes on from
    # there. Under '' the masters that have set aside these rows of a transaction.
    Column("sources", JSONB(none_as_null=True)),
    Column("parked_at", DateTime(timezone=True), server_default=func.clock_timestamp()),
    Column("reason", Text, nullable=False),
    Column("error_code", Text, nullable=False),
    Column("error_message", Text, nullable=False),
    # Error transactions that have to be settled first.
    Column(
        "waits_for",
        ARRAY(BigInteger),
        nullable=False,
        server_default=text("'{}'::bigint[]"),
    ),
    # The columns that its calls are for, by table: its oid, and by name their numbers
    # and the types of the values; of a withdrawn one by snapshot, with the master and
    # its table.
    Column("target_columns", JSONB(none_as_null=True)),
    # When an unresolved conflict was reported, and how often that was tried.
    Column("told_at", DateTime(timezone=True)),
    Column("tellings", Integer, nullable=False, server_default=text("0")),
    # The login of a publication that has parked it: a retry keeps to what its site is
    # granted.
    Column("login", Text, server_default=text("snaptide.bound_login()")),
    UniqueConstraint("origin_id", "batch_no", "order_no"),
    CheckConstraint(
        "reason IN ('conflict', 'error', 'dependant', 'quiet', 'withdrawn', "
        "'column gone')",
        name="reason",
    ),
)

#: Rows that may differ at other masters of a group after a decision here; listed until
#: a comparison finds them equal.
differing_row = Table(
    "differing_row",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("group_id", Uuid, nullable=False),
    Column("table_schema", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    # Column -> value as text; NULL is any row of the table.
    Column("key", JSONB(none_as_null=True)),
    Column("why", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
    UniqueConstraint(
        "group_id",
        "table_schema",
        "table_name",
        "key",
        postgresql_nulls_not_distinct=True,
    ),
)

#: The calls of a parked transaction; values are text as the database prints them.
#: JSON, not JSONB, which would forget the order of the columns.
error_call = Table(
    "error_call",
    metadata,
    # No foreign key: PostgreSQL would queue and run a check for each call.
    Column("error_id", BigInteger, primary_key=True),
    Column("call_no", BigInteger, primary_key=True),
    Column("target_schema", Text, nullable=False),
    Column("target_table", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("identity_columns", ARRAY(Text), nullable=False),
    Column("old_values", AllText(none_as_null=True)),
    Column("new_values", AllText(none_as_null=True)),
    Column("current_values", AllText(none_as_null=True)),
    Column("conflict", Text),
)

#: The procedures that a parked transaction calls, between its other calls.
error_procedure = Table(
    "error_procedure",
    metadata,
    Column("error_id", BigInteger, primary_key=True),
    Column("call_no", BigInteger, primary_key=True),
    Column("name", Text, nullable=False),
    Column("arguments", AllTextBinary, nullable=False),
    # The site that made the call ran the procedure, too.
    Column("ran_here", Boolean, nullable=False),
    # Why the transaction was parked, if this call was the reason.
    Column("error", Text),
)

#: Hashes of the rows that parked transactions hold, refer to and made; they find
#: dependants.
error_footprint = Table(
    "error_footprint",
    metadata,
    # Negative for a lost row: the id of the transaction here that gave it up, see
    # lost_rows.
    Column("error_id", BigInteger, nullable=False),
    Column("origin_id", Uuid, nullable=False),
    # holds: a row or unique value; refers: a parent; made: a whole row, key or unique
    # value that the call would have made.
    Column("how", Text, nullable=False),
    # A hash of table, columns and values.
    Column("entry", LargeBinary, nullable=False),
    Index("error_footprint_entry_idx", "origin_id", "entry"),
    Index("error_footprint_error_id_idx", "error_id"),
    CheckConstraint("how IN ('holds', 'refers', 'made')", name="how"),
)
