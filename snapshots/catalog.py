"""Tables of the schema `snaptide` that a snapshot site uses."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from sites.catalog import metadata
from sites.types import PgSnapshot

#: Snapshots that are always refreshed to one moment of one master.
refresh_group = Table(
    "refresh_group",
    metadata,
    Column("name", Text, primary_key=True),
    Column("master", Text, nullable=False),
    Column("master_id", Uuid, nullable=False),
    # The moment of the master that the group shows; NULL before the first load.
    Column("position", PgSnapshot),
    # The state of the master that the position belongs to.
    Column("incarnation", Uuid),
    Column("refreshed_at", DateTime(timezone=True)),
    # Changes go to the master in the user's own transaction, not by push.
    Column("synchronous", Boolean, nullable=False, server_default=text("false")),
    Column("last_error", Text),
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
    Column("identity_columns", ARRAY(Text), nullable=False),
    # As the master's catalog prints it, with every name qualified.
    Column("condition", Text),
    Column("updatable", Boolean, nullable=False),
    # What becomes of rows that leave the condition (`snapshots.snapshot.Leaving`).
    Column("leaving", Text, nullable=False, server_default=text("'drain'")),
    # Set when the first load is complete.
    Column("loaded", Boolean, nullable=False, server_default=text("false")),
    # The tables that held the master's rows at the last refresh (oids there):
    # its partitions, and tables that inherit from it.
    Column("master_parts", ARRAY(BigInteger)),
    # Their files in the same order, and which of the master's columns each column of
    # the snapshot was: if that has changed, the next refresh compares all rows.
    Column("master_files", ARRAY(BigInteger)),
    Column("master_columns", ARRAY(Text)),
    # The same for each other table that the condition asks, by name.
    Column("parents", JSONB(none_as_null=True)),
    # The version of its replication group's schema that the master table had then.
    Column("schema_group", Uuid),
    Column("schema_version", BigInteger),
    Column("last_method", Text),
    Column("last_refresh", DateTime(timezone=True)),
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
