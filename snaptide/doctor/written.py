"""Checks for what comes between Snaptide and the tables that it writes."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from masters.catalog import registered_snapshot
from sites.names import QualifiedName, identifier, quoted
from sites.tables import instead, subscribed
from sites.tables.table import Table, find_table
from snapshots.definitions import snapshot
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
    for name in _pushed_to(connection):
        if table := find_table(connection, name):
            yield from _rule(site, table, "Changes that sites push are parked.")


def _rule(site: str, table: Table, stops: str) -> Iterator[Finding]:
    if table.instead is not None:
        yield error(
            site,
            str(table.qualified),
            f"{instead.message(table.qualified, table.instead)}. {stops}",
            f"DROP RULE {quoted(table.instead)} ON "
            f"{identifier(table.qualified).as_string()}, and make it a trigger",
        )


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


def _pushed_to(connection: Connection) -> list[QualifiedName]:
    at = registered_snapshot.c
    tables = (
        select(at.table_schema, at.table_name)
        .distinct()
        .where(at.updatable)
        .order_by(at.table_schema, at.table_name)
    )
    return [QualifiedName(*row) for row in connection.execute(tables)]
