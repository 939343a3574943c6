"""Lists and describes the snapshots of a site."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, Text, cast, func, select, text

from deferred.queues import queue
from sites import names
from sites.conditions import subqueries
from sites.conditions.subqueries import Subquery
from sites.names import QualifiedName
from sites.sessions import identity
from sites.sessions.site import Site
from snapshots import catalog
from snapshots.definitions import snapshot
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.merging import kept
from snapshots.reports import AskedTable, SnapshotDescription

_snapshot, _group = catalog.snapshot, catalog.refresh_group


def list_snapshots(
    site: Site,
    *,
    group: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SnapshotDescription]:
    """The snapshots of a site, by name.

    Parameters:
        group: only those of this refresh group.
        limit: at most so many; None is all of them.
        offset: leave out so many before.
    """
    wanted = _ALL.limit(limit).offset(offset)
    if group is not None:
        wanted = wanted.where(_snapshot.c.refresh_group == group)
    with site.session() as connection:
        identity.read(connection)
        return [_describe(connection, row) for row in connection.execute(wanted).all()]


def describe_snapshot(site: Site, name: str) -> SnapshotDescription:
    """One snapshot.

    Raises:
        UnknownSnapshot: there is none of that name.
    """
    wanted = names.parse(name)
    with site.session() as connection:
        identity.read(connection)
        row = connection.execute(_ALL.where(snapshot.named(wanted))).one_or_none()
        if row is None:
            raise UnknownSnapshot(f"There is no snapshot {name}.", snapshot=name)
        return _describe(connection, row)


_SHOWN = cast(func.coalesce(_snapshot.c.position, _group.c.position), Text)

_ALL = (
    select(_snapshot, _group.c.master, _group.c.synchronous, _SHOWN.label("shown"))
    .join_from(_snapshot, _group, _snapshot.c.refresh_group == _group.c.name)
    .order_by(_snapshot.c.schema, _snapshot.c.name)
)


def _describe(connection: Connection, row: Row[Any]) -> SnapshotDescription:
    name = str(QualifiedName(row.schema, row.name))
    calls = queue.find_queue(connection, name)
    left = snapshot.Behind.of(row.behind)
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
        leaving=row.leaving,
        loaded=row.loaded,
        last_method=row.last_method,
        last_refresh=row.last_refresh,
        undelivered_calls=queue.undelivered_calls(connection, calls) if calls else 0,
        kept=kept.count(connection, name),
        position=row.shown if row.loaded else None,
        behind=None if left is None else str(left),
        todo=None if left is None else left.hint,
        rows=_rows(connection, QualifiedName(row.schema, row.base_table)),
        asks=_asks(connection, row),
    )


def _asks(connection: Connection, row: Row[Any]) -> tuple[AskedTable, ...]:
    table = QualifiedName(row.master_schema, row.master_table)
    base = QualifiedName(row.schema, row.base_table)
    return tuple(
        _asked(one, _rows_each(connection, base, one))
        for one in subqueries.parts(row.condition, table).subqueries
    )


def _asked(one: Subquery, rows_each: float | None) -> AskedTable:
    return AskedTable(
        table=str(one.table),
        columns=one.columns,
        key=one.key,
        required=one.required,
        rows_each=rows_each,
        asks=tuple(_asked(inner, None) for inner in one.subqueries),
    )


def _rows(connection: Connection, base: QualifiedName) -> int | None:
    given = {"schema": base.schema, "name": base.name}
    found: int | None = connection.scalar(_ROWS, given)
    return found


#: As PostgreSQL estimates it; -1 before it has looked at the table.
_ROWS = text("""
SELECT c.reltuples::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :name AND c.reltuples >= 0
""")


def _rows_each(
    connection: Connection, base: QualifiedName, one: Subquery
) -> float | None:
    given = {"schema": base.schema, "name": base.name, "columns": [*one.columns]}
    found = connection.scalar(_ROWS_EACH, given)
    return None if found is None else float(found)


#: PostgreSQL estimates the number of distinct values, or if negative, its share.
_ROWS_EACH = text("""
SELECT round(
    (c.reltuples / max(CASE WHEN s.n_distinct < 0
                            THEN -s.n_distinct * c.reltuples
                            ELSE s.n_distinct END))::numeric, 1)
FROM pg_stats s
JOIN pg_class c ON c.relname = s.tablename
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = s.schemaname
WHERE s.schemaname = :schema AND s.tablename = :name
  AND s.attname = ANY (CAST(:columns AS text[]))
  AND c.reltuples > 0 AND s.n_distinct <> 0
GROUP BY c.reltuples
""")
