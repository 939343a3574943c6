"""Alembic environment of a site's own schema, `snaptide`.

`snaptide.migrate` runs it and passes an open connection; it reads no file
and leaves the user's tables alone.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy.dialects.postgresql.base import ischema_names

import deferred.error_catalog  # noqa: F401
import masters.contract_catalog  # noqa: F401
import snapshots.catalog
import snapshots.spark.catalog  # noqa: F401
import snaptide.catalog  # noqa: F401
from sites import faults
from sites.catalog import SCHEMA, metadata
from sites.transfer.types import PgSnapshot, Xid8

# PostgreSQL types that SQLAlchemy needs to know when it reads a table back.
ischema_names.update({"pg_snapshot": PgSnapshot, "xid8": Xid8})


def only_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Limit Alembic to the tables that the catalogs declare.

    Log and queue tables are in the same schema, but belong to a snapshot log or a
    snapshot, not to the migrations.
    """
    if kind == "schema":
        return name == SCHEMA
    return kind != "table" or f"{SCHEMA}.{name}" in metadata.tables


def revised(*_: object, **_facts: object) -> None:
    """Let tests end the upgrade between two revisions."""
    faults.point("site_upgrade.after_revision")


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table_schema=SCHEMA,
    include_schemas=True,
    include_name=only_ours,
    compare_type=False,
    transactional_ddl=True,
    on_version_apply=revised,
)
with context.begin_transaction():
    context.run_migrations()
