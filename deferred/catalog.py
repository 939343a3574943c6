"""Tables of the schema `snaptide` through which changes travel."""

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
    Interval,
    LargeBinary,
    Sequence,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from sites.catalog import metadata
from sites.encodings import AllText, AllTextBinary
from sites.types import PgSnapshot, Xid8

#: Numbers calls and transactions. CACHE 1: with more, sessions would draw
#: numbers in advance and later transactions could come before earlier ones.
order_no = Sequence("order_no", metadata=metadata, data_type=BigInteger, cache=1)

# --- at the origin -----------------------------------------------------------

#: One row a table whose changes are queued: the base table of an updatable snapshot,
#: or a table of a replication group at one of its masters.
queue = Table(
    "queue",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    # A table of a group is called by its own name: no snapshot here can have it too.
    Column("snapshot", Text, nullable=False, unique=True),
    # NULL for a snapshot.
    Column("replication_group", Text),
    Column("base_schema", Text, nullable=False),
    Column("base_table", Text, nullable=False),
    Column("queue_table", Text, nullable=False, unique=True),
    # Keys that a refresh must read again; purge folds uncovered calls into it.
    # A table of a group has none: nothing refreshes it.
    Column("extra_table", Text),
    Column("target_schema", Text, nullable=False),
    Column("target_table", Text, nullable=False),
    # In the queue table they are o1, n1, o2, n2, ... in this order.
    Column("columns", ARRAY(Text), nullable=False),
    # Their numbers in the table: what is captured, whatever the columns are called now.
    Column("column_numbers", ARRAY(SmallInteger), nullable=False),
    Column("identity_columns", ARRAY(Text), nullable=False),
    # The target's table and the numbers of the columns there, as the last refresh of a
    # snapshot saw them; NULL if unknown, and of a table of a group.
    Column("target_oid", BigInteger),
    Column("target_numbers", ARRAY(SmallInteger)),
    # The target has columns that are not carried: a row deleted and inserted
    # again is then updated, which keeps them.
    Column("partial", Boolean, nullable=False),
    # Its changes are applied at the master in the user's own transaction.
    Column("synchronous", Boolean, nullable=False, server_default=text("false")),
    # What becomes of a transaction that cannot be applied; as its group says.
    Column("error_action", Text, nullable=False, server_default=text("'queue'")),
    # The refresh has seen the master's answer to every call up to here.
    Column("covered_batch", BigInteger, nullable=False, server_default=text("0")),
    Column("covered_order", BigInteger, nullable=False, server_default=text("0")),
)

#: Where the calls of a queue go, by the master of the group that they began at; those
#: that began here have the source ''. A snapshot's all begin here and go to its master.
route = Table(
    "route",
    metadata,
    Column(
        "queue_id",
        Integer,
        ForeignKey(queue.c.id, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("destination", Text, primary_key=True),
    Column("source", Text, primary_key=True, server_default=text("''")),
    # Only transactions after this position; by default all.
    Column("since", PgSnapshot, nullable=False, server_default=text("'1:1:'")),
)

#: One row a transaction with calls, a user's or one that a push applied here and that
#: goes on to other masters. Written by the trigger.
deferred_transaction = Table(
    "deferred_transaction",
    metadata,
    Column("xid", Xid8, primary_key=True),
    # NULL at first, 0 while the transaction's last checks run, then drawn.
    Column("order_no", BigInteger),
    Column("start_time", DateTime(timezone=True), server_default=func.now()),
    Column("origin_user", Text, nullable=False),
    # Of one that a push applied here: where it was made, its id and time there.
    Column("origin", Text),
    Column("origin_transaction", Text),
    Column("made_at", DateTime(timezone=True)),
    # By replication group, the master at which it began; here, where none is named. Of
    # one that a trigger made in answer to a push, '' stands for here.
    Column("sources", JSONB(none_as_null=True)),
)

#: One row a transaction and destination, once a window holds it.
delivery = Table(
    "delivery",
    metadata,
    Column("destination", Text, primary_key=True),
    Column("xid", Xid8, primary_key=True),
    Column("order_no", BigInteger, nullable=False),
    Column("calls", BigInteger, nullable=False),
    # NULL until a batch takes it; never changed afterwards.
    Column("batch", BigInteger),
    # A hint for purge and people; the truth is the destination's marker.
    Column("delivered_at", DateTime(timezone=True)),
    UniqueConstraint("destination", "batch", "order_no"),
    # Half of a page stays free: that a row is delivered is noted beside it.
    postgresql_with={"fillfactor": 50},
)

#: One row a destination: how far its queue was cut into batches.
destination = Table(
    "destination",
    metadata,
    Column("name", Text, primary_key=True),
    # The state of the destination that batches and marker belong to; NULL at
    # first, and after a repair of this site.
    Column("incarnation", Uuid),
    # Calls up to this place are purged: they cannot be pushed again.
    Column("purged_batch", BigInteger, nullable=False, server_default=text("0")),
    Column("purged_order", BigInteger, nullable=False, server_default=text("0")),
    Column("disabled", Boolean, nullable=False, server_default=text("false")),
    # Groups that it joins: nothing is pushed before it has their rows.
    Column("joins", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    # Transactions that this position has not seen are in no window yet.
    Column("window_end", PgSnapshot, nullable=False),
    Column("batch_no", BigInteger, nullable=False, server_default=text("0")),
    Column("batch_id", Uuid),
    Column("batch_end", BigInteger, nullable=False, server_default=text("0")),
    # Where a destination stands that has answered the batch before to its end.
    Column("previous_id", Uuid),
    Column("previous_end", BigInteger, nullable=False, server_default=text("0")),
    # What may wait before the destination is marked invalid; NULL is no limit.
    Column("max_lag_age", Interval),
    Column("max_lag_bytes", BigInteger),
    # Made valid again: its budget does not count until the queue is within it.
    Column("excused", Boolean, nullable=False, server_default=text("false")),
    Column("invalid_since", DateTime(timezone=True)),
    Column("invalid_reason", Text),
    # In a row; they make the pause longer until workers try again.
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("retry_at", DateTime(timezone=True)),
    Column("last_push_at", DateTime(timezone=True)),
    Column("last_txn_count", BigInteger),
    Column("last_error", Text),
    Column("last_error_at", DateTime(timezone=True)),
)

#: One row a coordinated transaction that is committed here and, for all that is
#: known, not yet at all its masters. Without a row it was rolled back.
decision = Table(
    "decision",
    metadata,
    Column("xid", Xid8, primary_key=True),
    Column("gid", Text, nullable=False),
    # By number of the participant, as its gid counts them.
    Column("masters", ARRAY(Text), nullable=False),
    Column("decided_at", DateTime(timezone=True), server_default=func.now()),
)

#: One row a call of a procedure. Written by `snaptide.defer_call`.
procedure_call = Table(
    "procedure_call",
    metadata,
    Column("call_no", BigInteger, primary_key=True),
    Column("xid", Xid8, nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("destinations", ARRAY(Text), nullable=False),
    # In order; each an object with type and value, as text that the database prints.
    Column("arguments", JSONB, nullable=False),
    # What it changed here stands in the queues, in small letters, and is not sent.
    Column("ran_here", Boolean, nullable=False),
)

# --- at the destination ------------------------------------------------------

#: Procedures of the database that calls from other sites may run here.
allowed_procedure = Table(
    "allowed_procedure",
    metadata,
    Column("schema_name", Text, primary_key=True),
    Column("procedure_name", Text, primary_key=True),
    Column("allowed_by", Text, nullable=False, server_default=text("SESSION_USER")),
    Column("allowed_at", DateTime(timezone=True), server_default=func.now()),
)

#: In-doubt transactions that a person ended here, before the deciding site could.
heuristic_decision = Table(
    "heuristic_decision",
    metadata,
    Column("gid", Text, primary_key=True),
    Column("decision", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
    Column("decided_at", DateTime(timezone=True), server_default=func.now()),
    # What the deciding site said later, if it ever did.
    Column("outcome", Text),
    CheckConstraint("decision IN ('commit', 'rollback')", name="decision"),
    CheckConstraint("outcome IN ('commit', 'rollback')", name="outcome"),
)

#: One row an origin and stream: the last transaction applied. This is the truth.
push_marker = Table(
    "push_marker",
    metadata,
    Column("origin_id", Uuid, primary_key=True),
    Column("stream", Integer, primary_key=True, server_default=text("0")),
    Column("origin", Text, nullable=False),
    Column("batch_no", BigInteger, nullable=False, server_default=text("0")),
    Column("batch_id", Uuid),
    Column("order_no", BigInteger, nullable=False, server_default=text("0")),
    Column("applied_at", DateTime(timezone=True)),
    # How often there came to be more to watch for, see second_way; 0 if nothing is.
    Column("watched", Integer, nullable=False, server_default=text("0")),
)

#: The ledger: which transactions each batch held that an origin has shipped. Tells
#: a restored origin what of its queue was applied in the meantime.
push_batch = Table(
    "push_batch",
    metadata,
    Column("origin_id", Uuid, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("id", Uuid, nullable=False),
    # Order numbers and start times, in order: together they name a transaction,
    # also where transaction ids and order numbers came again after a restore.
    Column("orders", ARRAY(BigInteger), nullable=False),
    Column("started", ARRAY(DateTime(timezone=True)), nullable=False),
    Column("shipped_at", DateTime(timezone=True), server_default=func.now()),
    # Their ids where they were made, without what a repair added to them.
    Column("transactions", ARRAY(BigInteger)),
    # NULL where all were made at the origin itself; so is each that was.
    Column("origins", ARRAY(Text)),
    Column("made", ARRAY(DateTime(timezone=True))),
)

#: The last transaction of each origin that the ledger has forgotten.
ledger_horizon = Table(
    "ledger_horizon",
    metadata,
    Column("origin", Text, primary_key=True),
    Column("transaction", BigInteger, nullable=False),
)

#: Sites whose changes may come to the masters of a group by another way, too: they were
#: switched to another master, or a master that has brought them was restored.
second_way = Table(
    "second_way",
    metadata,
    Column("replication_group", Text, primary_key=True),
    Column("origin", Text, primary_key=True),
    # Transactions with these numbers, as the origin gave them: before the end.
    Column("first_no", BigInteger, nullable=False),
    Column("end_no", BigInteger, nullable=False),
    # All that it sent to its former master was of this group.
    Column("alone", Boolean, nullable=False),
    # All that it sent of this group went to its former master.
    Column("whole", Boolean, nullable=False),
    # From this transaction on it is known which have come.
    Column("known_from", BigInteger, nullable=False, server_default=text("0")),
)

#: Which of those transactions have come to this master.
taken_transaction = Table(
    "taken_transaction",
    metadata,
    Column("replication_group", Text, primary_key=True),
    Column("origin", Text, primary_key=True),
    Column("transaction", BigInteger, primary_key=True, autoincrement=False),
    # Two that were given one number, because one was lost in a restore, differ here.
    Column("made_at", DateTime(timezone=True), primary_key=True),
    # Whose changes have come; '' are those of all tables of the group.
    Column("target", Text, primary_key=True),
    # Of what masters had set aside, and sent on when it was retried: at which.
    Column("part", Text, primary_key=True),
    # False where only changes of other tables may have come.
    Column("certain", Boolean, nullable=False),
    # Who brings the same again, if it does; NULL where that is not certain.
    Column("sender", Text),
)

#: What came to this master of a group: of which master, and who brought it. A row
#: whose source is this master, or two of one source, would be changes in a circle.
arrival = Table(
    "arrival",
    metadata,
    Column("replication_group", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("sender", Text, primary_key=True),
    Column("transactions", BigInteger, nullable=False),
    Column("last_at", DateTime(timezone=True), server_default=func.clock_timestamp()),
)

#: Masters that a group has forgotten; what they push is refused.
former_sender = Table(
    "former_sender",
    metadata,
    Column("replication_group", Text, primary_key=True),
    Column("sender", Text, primary_key=True),
)

#: Replication groups that are quiet here: what touches them goes to the error queue.
quiet_group = Table(
    "quiet_group",
    metadata,
    Column("group_id", Uuid, primary_key=True),
    Column("quiet_by", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("why", Text, nullable=False),
)

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
    # By replication group, the master at which it began: a retry goes on from there.
    # Under '' the masters that have set aside these rows of a transaction.
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
    # When people were told of an unresolved conflict, and how often it was tried.
    Column("told_at", DateTime(timezone=True)),
    Column("tellings", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("origin_id", "batch_no", "order_no"),
    CheckConstraint(
        "reason IN ('conflict', 'error', 'dependant', 'quiet')", name="reason"
    ),
)

#: Rows that other masters of a group may have different, because of what was decided
#: here: listed until they were seen to be equal.
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
    # No foreign key: it would be checked, and remembered until then, call by call.
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
    # Why the transaction was parked, if this call was the reason.
    Column("error", Text),
)

#: What the calls of parked transactions hold, refer to and made: finds dependants.
error_footprint = Table(
    "error_footprint",
    metadata,
    # Negative for a row that is lost: the transaction here that did it, see lost_rows.
    Column("error_id", BigInteger, nullable=False),
    Column("origin_id", Uuid, nullable=False),
    # holds: a row or unique value; refers: a parent; made: a whole row.
    Column("how", Text, nullable=False),
    # A hash of table, columns and values.
    Column("entry", LargeBinary, nullable=False),
    Index("error_footprint_entry_idx", "origin_id", "entry"),
    Index("error_footprint_error_id_idx", "error_id"),
    CheckConstraint("how IN ('holds', 'refers', 'made')", name="how"),
)

# --- anywhere ----------------------------------------------------------------

#: What runs by itself, and when. Read by beat, which needs no restart.
schedule = Table(
    "schedule",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    # Seconds ("10s"), or five fields of cron, in UTC.
    Column("interval", Text, nullable=False),
    Column("options", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("disabled", Boolean, nullable=False, server_default=text("false")),
    Column(
        "next_at", DateTime(timezone=True), nullable=False, server_default=func.now()
    ),
    Column("last_at", DateTime(timezone=True)),
    Column("last_error", Text),
    # When beat first asked for a run that no worker has ended since.
    Column("asked_at", DateTime(timezone=True)),
    CheckConstraint("kind IN ('push', 'refresh', 'purge')", name="kind"),
)

#: When beat last looked at this site.
beat = Table(
    "beat",
    metadata,
    Column("one_row", SmallInteger, primary_key=True, autoincrement=False),
    Column("looked_at", DateTime(timezone=True), nullable=False),
    CheckConstraint("one_row = 1", name="one_row"),
)
