"""Creating the snapshot logs of all tables of a schema."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from masters.log.snapshot_log import SnapshotLog, create_snapshot_log
from sites import QualifiedName, Site
from sites.errors import SnaptideError, UnknownTable
from sites.sessions import identity

#: Tables of a schema that may have a log of their own: neither parts of other tables,
#: whose logs record them, nor base tables of snapshots.
_TABLES = text("""
SELECT c.relname, l.id IS NOT NULL AS is_logged
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN snaptide.snapshot_log l
       ON l.table_schema = n.nspname AND l.table_name = c.relname
WHERE n.nspname = :schema AND c.relkind IN ('r', 'p')
  AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
  AND NOT EXISTS (SELECT FROM snaptide.snapshot s
                  WHERE s.schema = n.nspname AND s.base_table = c.relname)
ORDER BY c.relname
""")
_IS_THERE = text("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = :schema)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOfTable:
    """Whether a table has a snapshot log now."""

    table: str
    #: the log, if it was created just now; None if it was there, or was refused
    created: SnapshotLog | None = None
    #: why the table has none; None if it has one
    refused: str | None = None


def create_snapshot_logs(site: Site, schema: str = "public") -> list[LogOfTable]:
    """Record the changes of all tables of a schema from now on.

    Tables that have a log keep it. A table that cannot have one is named with the
    reason, and the others get theirs.

    Parameters:
        site: the master.
        schema: as the catalog has it.

    Raises:
        UnknownTable: there is no such schema.
        SiteNotInitialised, SiteChanged: no log was created.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        tables = connection.execute(_TABLES, {"schema": schema}).all()
        if not tables and not connection.scalar(_IS_THERE, {"schema": schema}):
            raise UnknownTable(f"Site {site.name} has no schema {schema!r}.")
    return [
        _create(site, QualifiedName(schema, name), is_logged=is_logged)
        for name, is_logged in tables
    ]


def _create(site: Site, name: QualifiedName, *, is_logged: bool) -> LogOfTable:
    table = str(name)
    if is_logged:
        return LogOfTable(table=table)
    try:
        return LogOfTable(table=table, created=create_snapshot_log(site, table))
    except SnaptideError as error:
        return LogOfTable(table=table, refused=f"{error.code} {error.message}")
