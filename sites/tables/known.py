"""The tables that a session has described, to be told only whether that still holds."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from sites.names import QualifiedName

#: So many descriptions are kept at most.
MOST = 256


def tables(connection: Connection) -> dict[QualifiedName, tuple[str, Any]]:
    """By name, the hash of what the catalog said of a table, and its description."""
    kept: dict[QualifiedName, tuple[str, Any]] = connection.info.setdefault(
        "snaptide.tables", {}
    )
    if len(kept) >= MOST:
        kept.clear()
    return kept
