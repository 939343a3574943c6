"""Checks for tables of ours far larger than their rows, and for unpurged queues."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from sqlalchemy import Connection, func, select, text

from deferred.catalog import delivery
from deferred.queues.queue import delivered_before
from sites.words import counted, does
from snaptide.doctor.finding import Finding, warning

#: Smaller tables, in bytes, are not worth a finding.
LEAST = 64 * 1024 * 1024
#: How many times larger than its rows a table may be.
SHARE = 4
#: Delivered calls that are older than this should have been purged.
UNPURGED = timedelta(days=3)

#: Our tables, and the catalogs in which temporary tables leave dead rows. A row has
#: a header of 28 bytes that the statistics do not count.
_SIZES = text(
    """
    SELECT n.nspname || '.' || quote_ident(c.relname) AS name,
           pg_table_size(c.oid) AS bytes, s.n_live_tup AS live, s.n_dead_tup AS dead,
           COALESCE(w.width, 100) + 28 AS width
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_stat_all_tables s ON s.relid = c.oid
    LEFT JOIN LATERAL (
        SELECT sum(p.avg_width * (1 - p.null_frac)) AS width FROM pg_stats p
        WHERE p.schemaname = n.nspname AND p.tablename = c.relname
    ) w ON true
    WHERE c.relkind = 'r'
      AND (n.nspname = 'snaptide' OR c.oid IN (
          'pg_class'::regclass, 'pg_attribute'::regclass, 'pg_type'::regclass,
          'pg_depend'::regclass))
      AND pg_table_size(c.oid) > :least
    ORDER BY 1
    """
)


def check(
    connection: Connection,
    site: str,
    *,
    least: int = LEAST,
    unpurged: timedelta = UNPURGED,
) -> Iterator[Finding]:
    """Findings about bloat.

    Parameters:
        least: skip tables with fewer bytes.
        unpurged: how long delivered calls may stay.
    """
    for row in connection.execute(_SIZES, {"least": least}):
        if row.bytes > SHARE * float(row.width) * row.live + least:
            yield warning(
                site,
                row.name,
                f"It takes {row.bytes / 1024**2:,.0f} MB for "
                f"{counted(row.live, 'row')} ({counted(row.dead, 'dead row')}).",
                f"VACUUM {row.name}; make sure that no old transaction or "
                f"replication slot prevents it. VACUUM FULL {row.name} frees the "
                "space, but blocks all sessions meanwhile.",
            )
    yield from _unpurged(connection, site, unpurged)


def _unpurged(connection: Connection, site: str, age: timedelta) -> Iterator[Finding]:
    old = select(func.count()).select_from(delivery).where(delivered_before(age))
    if count := connection.scalar(old):
        yield warning(
            site,
            "queue",
            f"{counted(count, 'transaction', 'were')} delivered more than "
            f"{age.days} days ago and {does(count, 'have')} not been purged.",
            f"Refresh the site's groups, then run: snaptide purge {site}; to do "
            f"this daily: snaptide schedule set {site} purge --every 1d",
        )
