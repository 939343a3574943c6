"""Checks for snapshots whose user view was dropped, renamed or altered by a user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from sites.errors import SnaptideError
from sites.names import identifier
from sites.tables import views
from sites.tables.table import find_table
from snapshots.creating import base_table
from snapshots.definitions import snapshot
from snapshots.definitions.snapshot import Snapshot
from snaptide.doctor.finding import Finding, error, warning


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about snapshots that users cannot reach by their names."""
    for one in snapshot.all_of(connection):
        if not one.loaded:
            continue
        columns = views.reading(connection, one.base).get(one.qualified)
        if columns is not None:
            yield from _renamed(site, one, columns)
            continue
        # Without its base table, the snapshot has more than this to be told of.
        if find_table(connection, one.base) is None:
            continue
        if find_table(connection, one.qualified) is not None:
            yield warning(
                site,
                one.key,
                f"Another table or view is called {one.qualified} now, and the user "
                "view is gone or has another name: what programs find there may not be "
                "the snapshot, which is refreshed as before.",
                "Rename what has its name; then run snaptide doctor again.",
            )
            continue
        yield error(
            site,
            one.key,
            "The user view was dropped, or has another name or schema: programs do "
            "not find the snapshot, which is refreshed as before.",
            "Give it back its name with ALTER VIEW; or, if it is gone, create it and "
            f"grant on it what was granted: {_create(connection, one)}",
        )


def _renamed(site: str, one: Snapshot, columns: Sequence[str]) -> Iterator[Finding]:
    """A finding about columns that the user view shows by other names, if it does."""
    lacks = [name for name in one.columns if name not in columns]
    if not lacks:
        return
    others = [name for name in columns if name not in one.columns]
    called = f" It has {', '.join(others)} instead." if others else ""
    yield warning(
        site,
        one.key,
        f"The user view has no column {', '.join(lacks)}: programs do not find by its "
        f"name what the snapshot has and refreshes write.{called}",
        "Give each column back its name: "
        f"ALTER VIEW {identifier(one.qualified).as_string()} RENAME COLUMN ...",
    )


def _create(connection: Connection, one: Snapshot) -> str:
    try:
        return base_table.user_view(connection, one).as_string()
    except SnaptideError:
        # Its condition asks a snapshot that lacks its own view, which is reported.
        return f"CREATE VIEW {identifier(one.qualified).as_string()} AS ..."
