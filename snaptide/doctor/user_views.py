"""Checks for snapshots whose user view was dropped, renamed or moved by a user."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from sites.errors import SnaptideError
from sites.names import identifier
from sites.tables import views
from snapshots.creating import base_table
from snapshots.definitions import snapshot
from snapshots.definitions.snapshot import Snapshot
from snaptide.doctor.finding import Finding, error


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about snapshots that users cannot reach by their names."""
    for one in snapshot.all_of(connection):
        reading = views.reading(connection, one.base)
        if not one.loaded or one.qualified in reading:
            continue
        yield error(
            site,
            one.key,
            "The user view was dropped, or has another name or schema: programs do "
            "not find the snapshot, which is refreshed as before.",
            "Give it back its name with ALTER VIEW; or, if it is gone, create it and "
            f"grant on it what was granted: {_create(connection, one)}",
        )


def _create(connection: Connection, one: Snapshot) -> str:
    try:
        return base_table.user_view(connection, one).as_string()
    except SnaptideError:
        # Its condition asks a snapshot that lacks its own view, which is reported.
        return f"CREATE VIEW {identifier(one.qualified).as_string()} AS ..."
