"""Checks for what comes between Snaptide and the tables that it writes."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select, text

from deferred.queues.queue import find_queue
from masters.catalog import registered_snapshot
from sites.names import QualifiedName, identifier, quoted
from sites.tables import instead, subscribed
from sites.tables.table import Table, find_table
from snapshots.definitions import snapshot
from snapshots.definitions.snapshot import Snapshot
from snaptide.doctor.finding import Finding, error
from snaptide.doctor.guarded import compare


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about base tables, and master tables of updatable snapshots.

    Another check reports those that are gone, and the tables of groups.
    """
    for one in snapshot.all_of(connection):
        if table := find_table(connection, one.base):
            yield from _rule(site, table, "Refreshes of its rows stop.")
            yield from _of_base(connection, site, table)
            yield from _unlogged(connection, site, one.key, table)
            yield from _not_queued(connection, site, one, table)
            yield from _again(connection, site, table)
    for name in _pushed_to(connection):
        if table := find_table(connection, name):
            yield from _rule(site, table, "Changes that sites push are parked.")


def _rule(site: str, table: Table, stops: str) -> Iterator[Finding]:
    if table.instead is not None:
        yield error(
            site,
            str(table.qualified),
            f"{instead.message(table.qualified, table.instead)}. {stops}",
            _as_trigger(table, table.instead),
        )


def _again(connection: Connection, site: str, table: Table) -> Iterator[Finding]:
    """Findings about rules that write the very table that a refresh writes."""
    for rule in connection.scalars(_WRITES_AGAIN, {"oid": table.oid}):
        yield error(
            site,
            str(table.qualified),
            f"What its rule {rule} (CREATE RULE) does besides a refresh's statement is "
            "taken for the refresh: rows that it writes stay at this site alone.",
            _as_trigger(table, rule),
        )


def _as_trigger(table: Table, rule: str) -> str:
    name = identifier(table.qualified).as_string()
    return f"DROP RULE {quoted(rule)} ON {name}, and make it a trigger"


#: Rules of a table by which more is done to it. Both texts name it alike.
_WRITES_AGAIN = text("""
SELECT r.rulename::text
FROM pg_rewrite r,
     regexp_replace(pg_get_ruledef(r.oid), '[[:space:];]', ' ', 'g') AS does
WHERE r.ev_class = :oid AND NOT r.is_instead AND EXISTS (
    SELECT FROM unnest(ARRAY['INSERT INTO', 'UPDATE', 'UPDATE ONLY', 'DELETE FROM',
                             'DELETE FROM ONLY']) AS what
    WHERE position(concat_ws(' ', what, r.ev_class::regclass, '') IN does) > 0)
ORDER BY 1
""")


def _of_base(connection: Connection, site: str, table: Table) -> Iterator[Finding]:
    if table.hides_rows:
        yield error(
            site,
            str(table.qualified),
            "Row-level security hides its rows from Snaptide's user: refreshes stop.",
            "Connect as the owner of the table; or ALTER TABLE ... NO FORCE ROW "
            "LEVEL SECURITY; or ALTER ROLE USER BYPASSRLS",
        )
    sent = subscribed.to(connection, table)
    if sent:
        yield error(
            site,
            str(table.qualified),
            f"Subscription {', '.join(sent)} writes it by native replication, "
            "which fires no trigger that queues or refuses changes: they are neither "
            "pushed nor reverted.",
            "Take the table out of its publication, then ALTER SUBSCRIPTION "
            f"{sent[0]} REFRESH PUBLICATION; let it write the master table instead, "
            f"whose log records it; then {compare(site)}",
        )


def _not_queued(
    connection: Connection, site: str, one: Snapshot, table: Table
) -> Iterator[Finding]:
    """Findings about columns that users can change, and whose changes go nowhere."""
    queue = find_queue(connection, one.key)
    if queue is None:
        return
    for name in one.columns:
        if name not in table.names or table.column(name).generated:
            continue
        if name not in queue.columns:
            yield error(
                site,
                str(table.qualified),
                f"Column {name} is not generated any more: changes of it are not "
                "queued, and the next refresh of their rows takes them back.",
                f"Push, drop snapshot {one.key} and create it again; then "
                f"{compare(site)}",
            )


def _unlogged(
    connection: Connection, site: str, snapshot: str, table: Table
) -> Iterator[Finding]:
    for part in connection.scalars(_UNLOGGED, {"oid": table.oid}):
        yield error(
            site,
            str(table.qualified),
            f"{part} is UNLOGGED: a crash of the server empties it, and no fast "
            "refresh brings its rows back.",
            f"ALTER TABLE {part} SET LOGGED; if its rows are gone, then snaptide "
            f"refresh {site} {snapshot} --method c",
        )


#: A table, its partitions and children, where they are not written to the WAL.
_UNLOGGED = text("""
WITH RECURSIVE tree AS (
    SELECT CAST(:oid AS oid) AS oid
  UNION
    SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON t.oid = i.inhparent
)
SELECT c.oid::regclass::text FROM pg_class c JOIN tree t ON t.oid = c.oid
WHERE c.relpersistence = 'u' ORDER BY 1
""")


def _pushed_to(connection: Connection) -> list[QualifiedName]:
    at = registered_snapshot.c
    tables = (
        select(at.table_schema, at.table_name)
        .distinct()
        .where(at.updatable)
        .order_by(at.table_schema, at.table_name)
    )
    return [QualifiedName(*row) for row in connection.execute(tables)]
