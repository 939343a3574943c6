"""Checks for stage tables of refreshes that died, and rules of what is not there."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from masters.errors import RulesMoved
from masters.rules import table_rules
from masters.rules.table_rules import load, ruled
from sites.tables.table import describe
from snaptide.doctor.finding import Finding, error, warning

#: Unlogged tables of ours that no session has locked, while no work is recorded.
_STAGES = text(
    """
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = 'snaptide'::regnamespace AND c.relpersistence = 'u'
      AND c.relkind = 'r'
      AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.relation = c.oid)
      AND NOT EXISTS (SELECT FROM snaptide.activity)
    ORDER BY 1
    """
)

_IS_THERE = text(
    "SELECT EXISTS (SELECT FROM pg_class WHERE relname = :name"
    " AND relnamespace = to_regnamespace(quote_ident(:schema)))"
)


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about stage tables, and rules of tables and columns that are gone."""
    for name in connection.scalars(_STAGES):
        yield warning(
            site,
            f"snaptide.{name}",
            "This is a stage table left over by a refresh that died.",
            f'DROP TABLE snaptide."{name}"',
        )
    for table in ruled(connection):
        named = {"schema": table.schema, "name": table.name}
        if not connection.scalar(_IS_THERE, named):
            yield warning(
                site,
                f"rules of {table}",
                "The table does not exist: its rules settle nothing.",
                f"snaptide rules export {site} > rules.toml; remove the table from "
                f"the file; snaptide rules apply {site} rules.toml",
            )
            continue
        of_now = describe(connection, table)
        moved = table_rules.moved(connection, load(connection, table), of_now)
        for name, called in moved.items():
            yield error(
                site,
                f"rules of {table}",
                f"{table_rules.message(of_now, name, called)} Pushes of its "
                "changes stop.",
                RulesMoved.hint,
            )
