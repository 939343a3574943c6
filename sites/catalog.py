"""Tables of the schema `snaptide` that every site has, whatever its part."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Identity,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

SCHEMA = "snaptide"

#: All tables of a site's own schema; `migrations/` is held against it by a test.
metadata = MetaData(
    schema=SCHEMA,
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    },
)

#: Who this database is (docs/explanation/identity.md).
#: One row, written by `site init`.
site_identity = Table(
    "site_identity",
    metadata,
    Column("site_id", Uuid, primary_key=True, server_default=func.gen_random_uuid()),
    Column("name", Text, nullable=False),
    Column("system_identifier", BigInteger, nullable=False),
    Column("timeline", Integer, nullable=False),
    Column("database_oid", BigInteger, nullable=False),
    # Made anew by each repair: positions and batches of before mean nothing then.
    Column("incarnation", Uuid, nullable=False, server_default=func.gen_random_uuid()),
    # Counts repairs.
    Column("generation", Integer, nullable=False, server_default=text("0")),
    Column("created_at", DateTime(timezone=True), server_default=func.now()),
    Column("one_row", Integer, nullable=False, unique=True, server_default=text("1")),
    CheckConstraint("one_row = 1", name="one_row"),
)

#: What this database and another one remember of their last contact
#: (docs/explanation/identity.md). The other holds the same row about this one.
peer = Table(
    "peer",
    metadata,
    Column("site_id", Uuid, primary_key=True),
    # What the other is to this one: its master, or a site that comes to it.
    Column("role", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("incarnation", Uuid, nullable=False),
    # Incarnations that it has given up; who still has one is a copy.
    Column("former", ARRAY(Uuid), nullable=False, server_default=text("'{}'::uuid[]")),
    Column("contact_no", BigInteger, nullable=False, server_default=text("0")),
    # The same at both sides after every contact.
    Column("token", Uuid),
    # What a site is about to give its master; nothing moves until both have it.
    Column("next_token", Uuid),
    Column("met_at", DateTime(timezone=True), server_default=func.now()),
    CheckConstraint("role IN ('master', 'site')", name="role"),
)

#: What long work is doing right now; for people who wait, never for decisions.
activity = Table(
    "activity",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("phase", Text, nullable=False, server_default=""),
    Column("done", BigInteger, nullable=False, server_default=text("0")),
    Column("total", BigInteger),
    Column("unit", Text, nullable=False, server_default=""),
    # Units a second; NULL until one is done.
    Column("rate", Double),
    Column("pid", Integer, nullable=False),
    Column("started_at", DateTime(timezone=True), server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), server_default=func.now()),
)
