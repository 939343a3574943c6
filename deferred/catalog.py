"""Catalog tables of deferred propagation, in the schema `snaptide`."""

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
    Sequence,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    column,
    func,
    text,
)
from sqlalchemy import table as sa_table
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from sites.catalog import metadata
from sites.transfer.types import PgSnapshot, Xid8

#: Numbers calls and transactions. CACHE is 1: with more, sessions would draw
#: numbers in advance, and later transactions could get lower numbers than earlier ones.
order_no = Sequence("order_no", metadata=metadata, data_type=BigInteger, cache=1)

# --- at the origin -----------------------------------------------------------

#: One row for each table whose changes are queued: the base table of an updatable
#: snapshot, or a table of a replication group at one of its masters.
queue = Table(
    "queue",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    # For a table of a group, its own name, which no snapshot here can have too.
    Column("snapshot", Text, nullable=False, unique=True),
    # The replication group; NULL for a snapshot.
    Column("group_id", Uuid),
    Column("base_schema", Text, nullable=False),
    Column("base_table", Text, nullable=False),
    Column("queue_table", Text, nullable=False, unique=True),
    # Keys that a refresh must read again; purge folds uncovered calls into it.
    # NULL for a table of a group, which is not refreshed.
    Column("extra_table", Text),
    Column("target_schema", Text, nullable=False),
    Column("target_table", Text, nullable=False),
    # In the queue table they are o1, n1, o2, n2, ... in this order.
    Column("columns", ARRAY(Text), nullable=False),
    # Their numbers in the table: these are captured, whatever their names are now.
    Column("column_numbers", ARRAY(SmallInteger), nullable=False),
    Column("identity_columns", ARRAY(Text), nullable=False),
    # The target table and the numbers of the columns there, as the last refresh of a
    # snapshot saw them; NULL if unknown, and for a table of a group.
    Column("target_oid", BigInteger),
    Column("target_numbers", ARRAY(SmallInteger)),
    # The target has columns that are not carried: a row that was deleted and inserted
    # again is then updated, which keeps their values.
    Column("partial", Boolean, nullable=False),
    # Its changes are applied at the master in the user's own transaction.
    Column("synchronous", Boolean, nullable=False, server_default=text("false")),
    # What a push does with a transaction that fails, as its group says.
    Column("error_action", Text, nullable=False, server_default=text("'queue'")),
    # A refresh has seen the master's answer to every call up to this place.
    Column("covered_batch", BigInteger, nullable=False, server_default=text("0")),
    Column("covered_order", BigInteger, nullable=False, server_default=text("0")),
)

#: Where the calls of a queue go, by the master of the group at which they began; calls
#: that began here have the source ''. A snapshot's calls all begin here and go to its
#: master.
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

#: One row for each transaction with calls: a user's, or one that a push applied here
#: and that goes on to other masters. Written by the trigger.
deferred_transaction = Table(
    "deferred_transaction",
    metadata,
    Column("xid", Xid8, primary_key=True),
    # NULL at first, 0 while the transaction's last checks run, then drawn.
    Column("order_no", BigInteger),
    Column("start_time", DateTime(timezone=True), server_default=func.now()),
    Column("origin_user", Text, nullable=False),
    # For one that a push applied here: the site where it was made, its id and time.
    Column("origin", Text),
    Column("origin_transaction", Text),
    Column("made_at", DateTime(timezone=True)),
    # By id of a replication group, the master at which it began; this site if none is
    # named. If a trigger made it in answer to a push, '' stands for this site.
    Column("sources", JSONB(none_as_null=True)),
)

#: Which transactions go to a destination, once a window holds them, and in which batch:
#: a view of `delivery_row`, and of what rows of `batch` say of many transactions.
delivery = sa_table(
    "delivery",
    column("destination", Text),
    column("xid", Xid8()),
    column("order_no", BigInteger),
    column("calls", BigInteger),
    column("batch", BigInteger),
    schema=metadata.schema,
)

#: One row for each transaction and destination, once a window holds it; none where the
#: batch says it all. Readers read `delivery`, except for those in no batch yet.
delivery_row = Table(
    "delivery_row",
    metadata,
    Column("destination", Text, primary_key=True),
    Column("xid", Xid8, primary_key=True),
    Column("order_no", BigInteger, nullable=False),
    Column("calls", BigInteger, nullable=False),
    # NULL until a batch takes it; afterwards only repairs and agreements change it.
    Column("batch", BigInteger),
    UniqueConstraint("destination", "batch", "order_no"),
)

#: One row for each destination: how far its queue was cut into batches.
destination = Table(
    "destination",
    metadata,
    Column("name", Text, primary_key=True),
    # The incarnation of the destination that batches and marker belong to; NULL at
    # first, and after a repair of this site.
    Column("incarnation", Uuid),
    # Calls up to this place are purged: they cannot be pushed again.
    Column("purged_batch", BigInteger, nullable=False, server_default=text("0")),
    Column("purged_order", BigInteger, nullable=False, server_default=text("0")),
    # The last transaction, by its first id, of those purged that came there by another
    # way and are in no batch; NULL if there are none.
    Column("purged_settled", BigInteger),
    # Transactions that this position has not seen are in no window yet.
    Column("window_end", PgSnapshot, nullable=False),
    Column("batch_no", BigInteger, nullable=False, server_default=text("0")),
    Column("batch_id", Uuid),
    Column("batch_end", BigInteger, nullable=False, server_default=text("0")),
    # The push that cut the current batch, as a traceparent; NULL if nobody traced it.
    Column("traceparent", Text),
    # The marker of a destination that has answered the previous batch to its end.
    Column("previous_id", Uuid),
    Column("previous_end", BigInteger, nullable=False, server_default=text("0")),
    # The budget: if more waits, the destination becomes invalid; NULL is no limit.
    Column("max_lag_age", Interval),
    Column("max_lag_bytes", BigInteger),
    # Failures in a row; each makes the pause before a worker's next try longer. That is
    # no state: a push by hand is tried at once.
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("retry_at", DateTime(timezone=True)),
    Column("last_push_at", DateTime(timezone=True)),
    Column("last_txn_count", BigInteger),
    # How many transactions all pushes have brought there; only grows.
    Column("delivered", BigInteger, nullable=False, server_default=text("0")),
    Column("last_error", Text),
    Column("last_error_at", DateTime(timezone=True)),
)

#: One row for each batch that has deliveries: how much of it was answered, and often
#: which they are. What was answered is a hint for purge and operators; the truth is the
#: destination's marker.
batch = Table(
    "batch",
    metadata,
    Column(
        "destination",
        Text,
        ForeignKey(destination.c.name, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    # The destination has answered its transactions up to this order number.
    Column("answered", BigInteger, nullable=False, server_default=text("0")),
    # When that was last noted; NULL before.
    Column("answered_at", DateTime(timezone=True)),
    # It holds all transactions from this id on that this position shows, as far as they
    # have order numbers in this range; each has so many calls. These have no row of
    # `delivery_row`, all others have. NULL if all its transactions have one.
    Column("first_xid", Xid8),
    Column("shown", PgSnapshot),
    Column("first_order", BigInteger),
    Column("last_order", BigInteger),
    Column("calls_each", BigInteger),
    Index(
        "batch_without_rows_idx",
        "destination",
        "number",
        postgresql_where=text("first_xid IS NOT NULL"),
    ),
)

#: Why nothing is pushed to a destination; without a row, it is open. Only
#: destination_state.py writes it.
destination_state = Table(
    "destination_state",
    metadata,
    Column(
        "destination",
        Text,
        ForeignKey(destination.c.name, ondelete="CASCADE"),
        nullable=False,
    ),
    Column("state", Text, nullable=False),
    # The group that it joins; NULL in other states.
    Column("group_id", Uuid),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("reason", Text, nullable=False),
    UniqueConstraint(
        "destination", "state", "group_id", postgresql_nulls_not_distinct=True
    ),
    # A destination that is excused cannot become invalid.
    Index(
        "destination_state_budget_key",
        "destination",
        unique=True,
        postgresql_where=text("state IN ('excused', 'invalid')"),
    ),
    CheckConstraint(
        "state IN ('disabled', 'excused', 'invalid', 'joining')", name="state"
    ),
)

#: One row for each coordinated transaction that is committed here and, as far as known,
#: not yet at all its masters. Without a row, a transaction in doubt was rolled back.
decision = Table(
    "decision",
    metadata,
    Column("xid", Xid8, primary_key=True),
    Column("gid", Text, nullable=False),
    # In the order of the participants' numbers in the gid.
    Column("masters", ARRAY(Text), nullable=False),
    Column("decided_at", DateTime(timezone=True), server_default=func.now()),
)

#: One row for each call of a procedure. Written by `snaptide.defer_call`.
procedure_call = Table(
    "procedure_call",
    metadata,
    Column("call_no", BigInteger, primary_key=True),
    Column("xid", Xid8, nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("destinations", ARRAY(Text), nullable=False),
    # In order; each an object with type and value, as text that the database prints.
    Column("arguments", JSONB, nullable=False),
    # Its changes here are in the queues, with lower-case kinds, and are not sent.
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

#: In-doubt transactions that an operator ended here, before the deciding site could.
heuristic_decision = Table(
    "heuristic_decision",
    metadata,
    Column("gid", Text, primary_key=True),
    Column("decision", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
    Column("decided_at", DateTime(timezone=True), server_default=func.now()),
    # The deciding site's later decision, if there is one.
    Column("outcome", Text),
    CheckConstraint("decision IN ('commit', 'rollback')", name="decision"),
    CheckConstraint("outcome IN ('commit', 'rollback')", name="outcome"),
)

#: One row for each origin: the last transaction answered. This is the truth.
push_marker = Table(
    "push_marker",
    metadata,
    Column("origin_id", Uuid, primary_key=True),
    Column("origin", Text, nullable=False),
    Column("batch_no", BigInteger, nullable=False, server_default=text("0")),
    Column("batch_id", Uuid),
    Column("order_no", BigInteger, nullable=False, server_default=text("0")),
    # How often the watch list has grown, see duplicate_watch; 0 if it is empty.
    Column("watched", Integer, nullable=False, server_default=text("0")),
)

#: The ledger: which transactions were in each batch that an origin has shipped. It
#: tells a restored origin which of its queued transactions were applied meanwhile.
#: Lists of numbers and times are stored uncompressed (docs/decisions/0016).
push_batch = Table(
    "push_batch",
    metadata,
    Column("origin_id", Uuid, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("id", Uuid, nullable=False),
    # Order numbers and start times, in order: together they identify a transaction,
    # even if transaction ids and order numbers came again after a restore.
    Column("orders", ARRAY(BigInteger), nullable=False),
    Column("started", ARRAY(DateTime(timezone=True)), nullable=False),
    Column("shipped_at", DateTime(timezone=True), server_default=func.now()),
    # Their ids where they were made, without what a repair added to them.
    Column("transactions", ARRAY(BigInteger)),
    # NULL for a transaction made at the origin itself; the list is NULL if all were.
    Column("origins", ARRAY(Text)),
    Column("made", ARRAY(DateTime(timezone=True))),
    # As the origin's row of the batch has it.
    Column("traceparent", Text),
)

#: The last transaction of each origin that was purged from the ledger.
ledger_horizon = Table(
    "ledger_horizon",
    metadata,
    Column("origin", Text, primary_key=True),
    Column("transaction", BigInteger, nullable=False),
)

#: The watch list: sites whose changes may come to the masters of a group by a second
#: way, because they were switched to another master, or a master that has brought them
#: was restored.
duplicate_watch = Table(
    "second_way",
    metadata,
    Column("group_id", Uuid, primary_key=True),
    Column("origin", Text, primary_key=True),
    # The range of transaction numbers at the origin; the end is not included.
    Column("first_no", BigInteger, nullable=False),
    Column("end_no", BigInteger, nullable=False),
    # All transactions that it sent to its former master were of this group.
    Column("alone", Boolean, nullable=False),
    # All its transactions of this group went to its former master.
    Column("whole", Boolean, nullable=False),
    # From this transaction number on it is known which have come.
    Column("known_from", BigInteger, nullable=False, server_default=text("0")),
)

# --- anywhere ----------------------------------------------------------------

#: Schedules. Beat reads them again and again, so it needs no restart.
schedule = Table(
    "schedule",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    # Seconds ("10s"), five fields of cron in UTC, or a calendar ("day 31 at 03:00").
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
    CheckConstraint("kind IN ('push', 'refresh', 'purge', 'check')", name="kind"),
)

#: When beat last looked at this site.
beat = Table(
    "beat",
    metadata,
    Column("one_row", SmallInteger, primary_key=True, autoincrement=False),
    Column("looked_at", DateTime(timezone=True), nullable=False),
    CheckConstraint("one_row = 1", name="one_row"),
)
