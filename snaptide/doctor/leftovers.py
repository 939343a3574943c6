"""What a refresh that died left behind."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from snaptide.doctor.finding import Finding, warning

#: Unlogged tables of ours that no session has locked: nobody works with them.
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


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about stages."""
    for name in connection.scalars(_STAGES):
        yield warning(
            site,
            f"snaptide.{name}",
            "A stage table of a refresh that died is left over.",
            f'DROP TABLE snaptide."{name}"',
        )
