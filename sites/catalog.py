"""Tables of the schema `snaptide` that every site has, whatever its part."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
    func,
    text,
)

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

#: Who this database is (docs/explanation/positions.md).
#: One row, written by `site init`.
site_identity = Table(
    "site_identity",
    metadata,
    Column("site_id", Uuid, primary_key=True, server_default=func.gen_random_uuid()),
    Column("name", Text, nullable=False),
    Column("system_identifier", BigInteger, nullable=False),
    Column("timeline", Integer, nullable=False),
    Column("database_oid", BigInteger, nullable=False),
    Column("created_at", DateTime(timezone=True), server_default=func.now()),
    Column("one_row", Integer, nullable=False, unique=True, server_default=text("1")),
    CheckConstraint("one_row = 1", name="one_row"),
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
    Column("pid", Integer, nullable=False),
    Column("started_at", DateTime(timezone=True), server_default=func.now()),
    Column("updated_at", DateTime(timezone=True), server_default=func.now()),
)
