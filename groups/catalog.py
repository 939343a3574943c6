"""Tables of the schema `snaptide` that describe replication groups, at every master.

Those of the master definition site are right; a version shows which others are behind.
"""

from __future__ import annotations

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


def _of_group() -> Column[str]:
    return Column(
        "group_name",
        Text,
        ForeignKey(replication_group.c.name, ondelete="CASCADE"),
        primary_key=True,
    )


#: Tables that several masters have, and that are administered together.
replication_group = Table(
    "replication_group",
    metadata,
    Column("name", Text, primary_key=True),
    Column("id", Uuid, nullable=False),
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
