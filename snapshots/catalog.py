"""Tables of the schema `snaptide` that a snapshot site uses."""

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
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    Interval,
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
from sites.transfer.types import PgSnapshot

#: Snapshots that are always refreshed to one moment of one master.
refresh_group = Table(
    "refresh_group",
    metadata,
    Column("name", Text, primary_key=True),
    Column("master", Text, nullable=False),
    Column("master_id", Uuid, nullable=False),
    # The moment of the master that the group shows; NULL before the first load.
    Column("position", PgSnapshot),
    # A later moment, at which the last refresh found nothing new; NULL if none did
    # since the position was moved.
    Column("unchanged_at", PgSnapshot),
    # The state of the master that the position belongs to.
    Column("incarnation", Uuid),
    Column("refreshed_at", DateTime(timezone=True)),
    # Changes go to the master in the user's own transaction, not by push.
    Column("synchronous", Boolean, nullable=False, server_default=text("false")),
    Column("last_error", Text),
    # How many rows the last refresh left alone, by what holds them back.
    Column("held_back", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    # How many rows all its refreshes have written, and left alone; these only grow.
    Column("rows_inserted", BigInteger, nullable=False, server_default=text("0")),
    Column("rows_updated", BigInteger, nullable=False, server_default=text("0")),
    Column("rows_deleted", BigInteger, nullable=False, server_default=text("0")),
    Column("rows_held_back", BigInteger, nullable=False, server_default=text("0")),
)

#: What a master's contract promises a group: within which time changes of the master
#: are visible, and those of the site answered. A group without a row has neither.
promise = Table(
    "promise",
    metadata,
    Column(
        "refresh_group",
        Text,
        ForeignKey(refresh_group.c.name, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("visible_within", Interval),
    Column("answered_within", Interval),
    # Whether refreshes take the way that costs least (`snapshots.differences.ways`).
    Column("repair", Boolean, nullable=False, server_default=text("false")),
    # What the last look at answers found, and since when it is so
    # (`snapshots.creating.answers`).
    Column("state", Text, nullable=False, server_default=text("'kept'")),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("looked_at", DateTime(timezone=True)),
    # Seconds since the commit of the oldest change that is not answered.
    Column("age", Double),
    # That change, by its place in the queue, and when it was committed, in seconds of
    # `position_time.passed`; NULL if all are answered.
    Column("waits", BigInteger),
    Column("waits_since", Double),
    CheckConstraint("state IN ('kept', 'late')", name="state"),
)

#: The last refreshes of each group (`snapshots.refreshing.past_refreshes`).
refresh_run = Table(
    "refresh_run",
    metadata,
    Column(
        "refresh_group",
        Text,
        ForeignKey(refresh_group.c.name, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("outcome", Text, nullable=False),
    # When it ended. In a row, those that found nothing new, or failed with the same
    # error, share a row: when the first and the last of them ended, how many they are,
    # and the longest time between two of them; seconds and steps are of the last.
    Column("first_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True), nullable=False),
    Column("refreshes", BigInteger, nullable=False, server_default=text("1")),
    Column("longest", Interval),
    # When the last one before it that did not fail ended.
    Column("previous_at", DateTime(timezone=True)),
    Column("seconds", Double, nullable=False),
    # Seconds by step.
    Column("steps", JSONB, nullable=False),
    # By snapshot, the way by which it was compared, the size and seconds of that, and
    # what the ways were estimated to take (`snapshots.reports.WayTaken`).
    Column("ways", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    # Of its snapshots, those that there were.
    Column("methods", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("inserted", BigInteger, nullable=False, server_default=text("0")),
    Column("updated", BigInteger, nullable=False, server_default=text("0")),
    Column("deleted", BigInteger, nullable=False, server_default=text("0")),
    Column("held_back", BigInteger, nullable=False, server_default=text("0")),
    # Why it failed, with the code, or what of it the site refused.
    Column("error", Text),
    CheckConstraint(
        "outcome IN ('refreshed', 'nothing new', 'failed')", name="outcome"
    ),
)

#: How long the steps of all refreshes of a group took that moved its position: how
#: many took at most so many seconds, and longer than the limit before.
refresh_step = Table(
    "refresh_step",
    metadata,
    Column(
        "refresh_group",
        Text,
        ForeignKey(refresh_group.c.name, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("step", Text, primary_key=True),
    Column("at_most", Double, primary_key=True, autoincrement=False),
    Column("refreshes", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
)

#: One row per snapshot.
snapshot = Table(
    "snapshot",
    metadata,
    Column("schema", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column(
        "refresh_group",
        Text,
        ForeignKey(refresh_group.c.name),
        nullable=False,
        index=True,
    ),
    Column("base_table", Text, nullable=False),
    Column("extra_table", Text, nullable=False, unique=True),
    Column("log_view", Text, nullable=False, unique=True),
    Column("master_schema", Text, nullable=False),
    Column("master_table", Text, nullable=False),
    Column("columns", ARRAY(Text), nullable=False),
    # Their numbers in the base table; NULL if these are 1, 2, ...
    Column("column_numbers", ARRAY(SmallInteger)),
    # DDL of the master that its columns have followed (`masters.log.site_ddl`).
    Column("ddl_followed", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("identity_columns", ARRAY(Text), nullable=False),
    # As the master's catalog prints it, with every name qualified.
    Column("condition", Text),
    Column("updatable", Boolean, nullable=False),
    # What becomes of rows that leave the condition
    # (`snapshots.definitions.snapshot.Leaving`).
    Column("leaving", Text, nullable=False, server_default=text("'drain'")),
    # Set when the first load is complete.
    Column("loaded", Boolean, nullable=False, server_default=text("false")),
    # The tables that held the master's rows at the last refresh (oids there):
    # its partitions, and tables that inherit from it.
    Column("master_parts", ARRAY(BigInteger)),
    # Their files in the same order, and which of the master's columns each column of
    # the snapshot was, then or when it was created: if that has changed, the next
    # refresh compares all rows.
    Column("master_files", ARRAY(BigInteger)),
    Column("master_columns", ARRAY(Text)),
    # The same for each other table that the condition asks, by name; and the functions
    # that it calls.
    Column("parents", JSONB(none_as_null=True)),
    # The version of its replication group's schema that the master table had then.
    Column("schema_group", Uuid),
    Column("schema_version", BigInteger),
    Column("last_method", Text),
    Column("last_refresh", DateTime(timezone=True)),
    # Why the last refresh of the group left it behind (`Behind`), and the moment of the
    # master that it shows; NULL if it shows that of the group.
    Column("behind", JSONB(none_as_null=True)),
    Column("position", PgSnapshot),
    # The image whose rows are, or were at first, in the base table; NULL if a refresh
    # has filled it.
    Column("image", Uuid),
    UniqueConstraint("schema", "base_table"),
    CheckConstraint("leaving IN ('drain', 'keep', 'freeze', 'park')", name="leaving"),
)

#: Rows that have left a snapshot with the policy keep, as the site had them then.
kept_row = Table(
    "kept_row",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("snapshot", Text, nullable=False),
    Column("key", ARRAY(Text), nullable=False),
    Column("values", JSON, nullable=False),
    Column("reason", Text, nullable=False),
    # The moment of the master at which the row did not belong any more.
    Column("position", PgSnapshot, nullable=False),
    Column(
        "left_at", DateTime(timezone=True), nullable=False, server_default=func.now()
    ),
    UniqueConstraint("snapshot", "key"),
)

#: Snapshots that are still to be unregistered at a master that they have left.
former_master = Table(
    "former_master",
    metadata,
    Column("master_id", Uuid, primary_key=True),
    Column("snapshot", Text, primary_key=True),
    Column("master", Text, nullable=False),
    Column("tried_at", DateTime(timezone=True)),
)

#: Checks that were saved (`snapshots.check.saved`).
check_run = Table(
    "check_run",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("began_at", DateTime(timezone=True), nullable=False),
    Column("seconds", Double, nullable=False),
    # What the check was restricted to.
    Column("condition", Text),
    Column("columns", ARRAY(Text), nullable=False),
    # How many rows of each snapshot it lists at most.
    Column("most", Integer, nullable=False),
    # The groups that it could not compare, with what their master's site says.
    Column("away", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
)

#: What a saved check found of one snapshot.
check_snapshot = Table(
    "check_snapshot",
    metadata,
    Column(
        "run_id",
        BigInteger,
        ForeignKey(check_run.c.id, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("snapshot", Text, primary_key=True),
    # Its place in the report.
    Column("no", Integer, nullable=False),
    Column("refresh_group", Text, nullable=False),
    Column("master", Text, nullable=False),
    Column("master_table", Text, nullable=False),
    # The master's position that the snapshot showed, and the moments of both sides.
    Column("position", PgSnapshot),
    Column("moment_here", PgSnapshot),
    Column("moment_master", PgSnapshot),
    Column("rows_master", BigInteger, nullable=False),
    Column("rows_here", BigInteger, nullable=False),
    # [kind, reason, number of rows], in the order of the report.
    Column("counts", JSONB, nullable=False),
    # Why nothing could be proven.
    Column("unproven", Text),
    # Columns of the master table that the snapshot does not have.
    Column(
        "not_carried", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")
    ),
    Index("check_snapshot_snapshot", "snapshot", "run_id"),
)

#: The rows that a saved check lists. Their values are JSON as written, since those of
#: the master may have characters that the site's encoding lacks.
check_difference = Table(
    "check_difference",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("run_id", BigInteger, nullable=False),
    Column("snapshot", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("reason", Text, nullable=False),
    # By column; all others are texts that may be cut, but never these.
    Column("key", JSON, nullable=False),
    Column("columns", ARRAY(Text), nullable=False),
    # NULL where the side lacks the row; of a row that differs, only those columns.
    Column("row_master", JSON(none_as_null=True)),
    Column("row_here", JSON(none_as_null=True)),
    Column("detail", Text),
    # The deferred transaction that explains it, and when that began.
    Column("transaction_id", Text),
    Column("transaction_began_at", DateTime(timezone=True)),
    ForeignKeyConstraint(
        ["run_id", "snapshot"],
        [check_snapshot.c.run_id, check_snapshot.c.snapshot],
        ondelete="CASCADE",
    ),
    CheckConstraint("kind IN ('missing', 'extra', 'differs')", name="kind"),
    Index("check_difference_run", "run_id", "snapshot"),
)
