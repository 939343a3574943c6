"""The schema versions of tables that several masters have.

Each DDL of their replication group gives them the next version, at all masters. A push
or refresh that finds another version than its own has met tables of another shape: it
waits, and no change is lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.dialects.postgresql import insert

from masters.catalog import group_schema
from sites import QualifiedName
from sites.sessions.prepared import as_json

_at = group_schema.c


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """The shape of a group's tables. Versions of different groups have no order."""

    group_id: uuid.UUID
    version: int


def set_version(
    connection: Connection,
    tables: Collection[QualifiedName],
    group_id: uuid.UUID,
    version: int,
) -> None:
    """Note which version of its group's schema tables of this master have."""
    if not tables:
        return
    values = {"group_id": group_id, "version": version}
    new = insert(group_schema).values(
        [
            {"table_schema": one.schema, "table_name": one.name, **values}
            for one in tables
        ]
    )
    connection.execute(
        new.on_conflict_do_update(index_elements=group_schema.primary_key, set_=values)
    )


def forget(connection: Connection, *tables: QualifiedName) -> None:
    """Note that tables are in no group any more."""
    mine = sa.or_(sa.false(), *map(_is, tables))
    connection.execute(sa.delete(group_schema).where(mine))


def versions(connection: Connection) -> dict[QualifiedName, SchemaVersion]:
    """The versions of the tables here that are in a group."""
    return {
        QualifiedName(row.table_schema, row.table_name): SchemaVersion(
            group_id=row.group_id, version=row.version
        )
        for row in connection.execute(_ALL)
    }


def of(found: Sequence[Mapping[str, Any]] | None) -> dict[QualifiedName, SchemaVersion]:
    """The same from the column `VERSIONS` of a row."""
    return {
        QualifiedName(row["table_schema"], row["table_name"]): SchemaVersion(
            group_id=uuid.UUID(row["group_id"]), version=row["version"]
        )
        for row in found or ()
    }


def other_than(
    known: Mapping[QualifiedName, SchemaVersion | None],
) -> ColumnElement[bool]:
    """Whether one of these tables is in a group, with a version other than given."""
    other = [
        sa.and_(_is(table), sa.true() if version is None else sa.not_(_same(version)))
        for table, version in known.items()
    ]
    return sa.exists().where(sa.or_(sa.false(), *other))


def _same(version: SchemaVersion) -> ColumnElement[bool]:
    return sa.and_(_at.group_id == version.group_id, _at.version == version.version)


def _is(table: QualifiedName) -> ColumnElement[bool]:
    return sa.and_(_at.table_schema == table.schema, _at.table_name == table.name)


_ALL = select(group_schema)

#: All versions, for statements that read more.
VERSIONS = as_json(_ALL, "versions")
