"""Tables of the schema `snaptide` that describe replication groups, at every master.

Those of the master definition site are right; a version shows which others are behind.
"""

from __future__ import annotations

import uuid

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)

from sites.catalog import metadata


def _of_group() -> Column[uuid.UUID]:
    return Column(
        "group_id",
        Uuid,
        ForeignKey(replication_group.c.id, ondelete="CASCADE"),
        primary_key=True,
    )


#: Tables that several masters have, and that are administered together.
replication_group = Table(
    "replication_group",
    metadata,
    # The same at all masters.
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("definition_site", Text, nullable=False),
    # One more with each change of the description.
    Column("version", BigInteger, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'normal'")),
    Column("status_by", Text),
    Column("status_since", DateTime(timezone=True), server_default=func.now()),
    # How a master treats a transaction that it cannot apply.
    Column("error_action", Text, nullable=False, server_default=text("'queue'")),
    # One more with each DDL at all masters.
    Column("schema_version", BigInteger, nullable=False, server_default=text("1")),
    CheckConstraint("status IN ('normal', 'quiescing', 'quiesced')", name="status"),
)

#: The sites that have the group's tables.
group_master = Table(
    "group_master",
    metadata,
    _of_group(),
    Column("master", Text, primary_key=True),
    Column("target_type", Text, nullable=False, server_default=text("'full_peer'")),
    # False while the rows of the others are copied to it.
    Column("joined", Boolean, nullable=False, server_default=text("true")),
    CheckConstraint(
        "target_type IN ('full_peer', 'protected_read_only', 'unprotected_read_only')",
        name="target_type",
    ),
)

#: The tables of a group; one table belongs to one group.
group_table = Table(
    "group_table",
    metadata,
    _of_group(),
    Column("table_schema", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    UniqueConstraint("table_schema", "table_name"),
)

#: Which master sends on to which, by the master at which a change began.
group_path = Table(
    "group_path",
    metadata,
    _of_group(),
    Column("source", Text, primary_key=True),
    # There is one way to each master.
    Column("to_master", Text, primary_key=True),
    Column("from_master", Text, nullable=False),
)

#: Transactions of the watch list that have come to this master.
applied_transaction = Table(
    "taken_transaction",
    metadata,
    Column("group_id", Uuid, primary_key=True),
    Column("origin", Text, primary_key=True),
    Column("transaction", BigInteger, primary_key=True, autoincrement=False),
    # Tells apart two with the same number, of which one was lost in a restore.
    Column("made_at", DateTime(timezone=True), primary_key=True),
    # The table whose changes have come; '' means all tables of the group.
    Column("target", Text, primary_key=True),
    # The masters that set aside these rows, which go on after a retry; else ''.
    Column("part", Text, primary_key=True),
    # False if perhaps only changes of other tables have come.
    Column("certain", Boolean, nullable=False),
    # A sender from which a repeat would be the same; NULL if that is not certain.
    Column("sender", Text),
)

#: Counts of a group's transactions that came to this master, by the master where they
#: began and the sender. A row with this master as its source, or two rows of one
#: source, would mean that changes go in a circle.
arrival = Table(
    "arrival",
    metadata,
    Column("group_id", Uuid, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("sender", Text, primary_key=True),
    Column("transactions", BigInteger, nullable=False),
    Column("last_at", DateTime(timezone=True), server_default=func.clock_timestamp()),
)

#: Masters that a group has forgotten; their pushes are refused.
former_sender = Table(
    "former_sender",
    metadata,
    Column("group_id", Uuid, primary_key=True),
    Column("sender", Text, primary_key=True),
)

#: Replication groups that are quiet here: their transactions go to the error queue.
quiet_group = Table(
    "quiet_group",
    metadata,
    Column("group_id", Uuid, primary_key=True),
    Column("quiet_by", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("why", Text, nullable=False),
)
