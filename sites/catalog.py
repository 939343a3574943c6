"""Tables of the schema `snaptide` that this package uses at every site."""

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

#: All tables of the schema `snaptide`; a test compares `migrations/` with them.
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

#: The identity of this database (docs/explanation/identity.md).
#: One row, written by `site init`.
site_identity = Table(
    "site_identity",
    metadata,
    Column("site_id", Uuid, primary_key=True, server_default=func.gen_random_uuid()),
    Column("name", Text, nullable=False),
    Column("system_identifier", BigInteger, nullable=False),
    Column("timeline", Integer, nullable=False),
    Column("database_oid", BigInteger, nullable=False),
    # Each repair makes a new one: earlier positions and batches then mean nothing.
    Column("incarnation", Uuid, nullable=False, server_default=func.gen_random_uuid()),
    # Number of repairs.
    Column("generation", Integer, nullable=False, server_default=text("0")),
    Column("one_row", Integer, nullable=False, unique=True, server_default=text("1")),
    CheckConstraint("one_row = 1", name="one_row"),
)

#: What this database and another one remember of their last contact
#: (docs/explanation/identity.md). The other holds the same row about this one.
peer = Table(
    "peer",
    metadata,
    Column("site_id", Uuid, primary_key=True),
    # Role of the other database: master of this one, or a site that connects to it.
    Column("role", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("incarnation", Uuid, nullable=False),
    # Earlier incarnations of the other one; a database that still has one is a copy.
    Column("former", ARRAY(Uuid), nullable=False, server_default=text("'{}'::uuid[]")),
    Column("contact_no", BigInteger, nullable=False, server_default=text("0")),
    # Equal at both sides after every contact.
    Column("token", Uuid),
    # Token that a site is about to give its master; no data moves until both have it.
    Column("next_token", Uuid),
    CheckConstraint("role IN ('master', 'site')", name="role"),
)

#: Progress of long work; shown to people who wait, never used for decisions.
activity = Table(
    "activity",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("done", BigInteger, nullable=False, server_default=text("0")),
    Column("total", BigInteger),
    Column("unit", Text, nullable=False, server_default=""),
    # Units per second; NULL until one is done.
    Column("rate", Double),
    Column("pid", Integer, nullable=False),
    Column("started_at", DateTime(timezone=True), server_default=func.now()),
)
