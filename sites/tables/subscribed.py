"""Finding tables that native replication of PostgreSQL writes.

The worker of a subscription fires no statement triggers, so that queues do not record
what it writes, and guards do not refuse it. A snapshot log has a row trigger for it.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from sites.tables.table import Table

#: The table, its parts, and the tables whose parts it is: a subscription names either.
_TO = text(
    """
    WITH RECURSIVE below AS (
        SELECT CAST(:oid AS oid) AS oid
      UNION
        SELECT i.inhrelid FROM pg_inherits i JOIN below b ON b.oid = i.inhparent
    )
    SELECT DISTINCT s.subname::text
    FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
    WHERE r.srrelid IN (
        SELECT oid FROM below
      UNION SELECT relid FROM pg_partition_ancestors(CAST(:oid AS oid)))
    ORDER BY 1
    """
)


def to(connection: Connection, table: Table) -> list[str]:
    """The names of subscriptions that write a table or a part of it."""
    return list(connection.scalars(_TO, {"oid": table.oid}))
