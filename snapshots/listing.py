"""Lists and describes the snapshots of a site."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from deferred.queues import queue
from sites import identity, names
from sites.names import QualifiedName
from sites.site import Site
from snapshots import catalog
from snapshots.errors import UnknownSnapshot
from snapshots.reports import SnapshotDescription

_snapshot, _group = catalog.snapshot, catalog.refresh_group


def list_snapshots(site: Site) -> list[SnapshotDescription]:
    """All snapshots of a site, by name."""
    with site.session() as connection:
        identity.read(connection)
        return [_describe(connection, row) for row in connection.execute(_ALL).all()]


def describe_snapshot(site: Site, name: str) -> SnapshotDescription:
    """One snapshot.

    Raises:
        UnknownSnapshot: there is none of that name.
    """
    wanted = names.parse(name)
    with site.session() as connection:
        row = connection.execute(
            _ALL.where(
                _snapshot.c.schema == wanted.schema, _snapshot.c.name == wanted.name
            )
        ).one_or_none()
        if row is None:
            raise UnknownSnapshot(f"There is no snapshot {name}.", snapshot=name)
        return _describe(connection, row)


_ALL = (
    select(_snapshot, _group.c.master, _group.c.synchronous)
    .join_from(_snapshot, _group, _snapshot.c.refresh_group == _group.c.name)
    .order_by(_snapshot.c.schema, _snapshot.c.name)
)


def _describe(connection: Connection, row: Row[Any]) -> SnapshotDescription:
    name = str(QualifiedName(row.schema, row.name))
    calls = queue.find_queue(connection, name)
    return SnapshotDescription(
        name=name,
        group=row.refresh_group,
        master=row.master,
        table=str(QualifiedName(row.master_schema, row.master_table)),
        columns=tuple(row.columns),
        identity=tuple(row.identity_columns),
        condition=row.condition,
        updatable=row.updatable,
        synchronous=row.updatable and row.synchronous,
        loaded=row.loaded,
        last_method=row.last_method,
        last_refresh=row.last_refresh,
        undelivered_calls=queue.undelivered_calls(connection, calls) if calls else 0,
    )
