"""The schema version of tables that several masters have.

Each DDL of their group gives them the next one, at all masters. Who meets another
version than his own meets tables of another shape: he waits, and loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.dialects.postgresql import insert

from masters.catalog import group_schema
from sites import QualifiedName

_at = group_schema.c


def set_version(
    connection: Connection, table: QualifiedName, group: str, version: int
) -> None:
    """Note which version of its group's schema a table of this master has."""
    values = {"replication_group": group, "version": version}
    new = insert(group_schema).values(
        table_schema=table.schema, table_name=table.name, **values
    )
    connection.execute(
        new.on_conflict_do_update(index_elements=group_schema.primary_key, set_=values)
    )


def forget(connection: Connection, table: QualifiedName) -> None:
    """Note that a table is in no group any more."""
    connection.execute(sa.delete(group_schema).where(_is(table)))


def versions(connection: Connection) -> dict[QualifiedName, int]:
    """The versions of the tables here that are in a group."""
    return {
        QualifiedName(row.table_schema, row.table_name): row.version
        for row in connection.execute(select(group_schema))
    }


def other_than(known: Mapping[QualifiedName, int | None]) -> ColumnElement[bool]:
    """Whether one of these tables is in a group, with another version than this."""
    other = [
        sa.and_(_is(table), _at.version.is_distinct_from(version))
        for table, version in known.items()
    ]
    return sa.exists().where(sa.or_(sa.false(), *other))


def _is(table: QualifiedName) -> ColumnElement[bool]:
    return sa.and_(_at.table_schema == table.schema, _at.table_name == table.name)
