"""Quiet groups: changes of their tables wait in the error queue (QuietCDDS).

One queue goes to a destination in one order, with one marker, so a site cannot hold
back part of it. The destination holds those transactions back instead, with all that
depend on them; all others go on.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.error_catalog import error_call, error_transaction
from deferred.parked.error_dependencies import HELD
from groups.catalog import quiet_group
from masters.catalog import group_schema
from sites import QualifiedName
from sites.sessions.prepared import as_json

_ALL = select(quiet_group).order_by(quiet_group.c.group_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietGroup:
    """A replication group that is quiet at a master."""

    group_id: uuid.UUID
    by: str
    since: datetime
    why: str


def begin(
    connection: Connection, groups: Iterable[uuid.UUID], why: str, by: str | None = None
) -> None:
    """Make groups quiet here; a group that is quiet already stays as it is.

    Parameters:
        by: the person or push that asks for it; the database user by default.
    """
    for group in groups:
        connection.execute(
            insert(quiet_group)
            .values(
                group_id=group,
                why=why,
                quiet_by=by or func.session_user(),
            )
            .on_conflict_do_nothing()
        )


def end(connection: Connection, group: uuid.UUID) -> bool:
    """End the quiet of a group; waits for sessions that park a transaction of it.

    Returns:
        Whether it was quiet.
    """
    mine = quiet_group.c.group_id == group
    return connection.execute(sa.delete(quiet_group).where(mine)).rowcount == 1


def listed(connection: Connection, group: uuid.UUID | None = None) -> list[QuietGroup]:
    """The groups that are quiet here, or one if it is."""
    mine = quiet_group.c.group_id == group
    return _read(connection, _ALL if group is None else _ALL.where(mine))


def message(one: QuietGroup) -> str:
    """The message about a quiet group, for operators."""
    return f"The group has been quiet since {one.since:%F %T%z}: {one.why}"


def of_tables(
    connection: Connection, tables: Collection[QualifiedName]
) -> list[QuietGroup]:
    """The quiet groups that some tables are in; they stay quiet until the commit.

    `end` waits for that commit, and so finds all transactions that were parked for it.
    """
    mine = quiet_group.c.group_id.in_(_of(tables))
    kept = _ALL.where(mine).with_for_update(read=True, key_share=True)
    return _read(connection, kept)


def groups(connection: Connection, tables: Collection[QualifiedName]) -> set[uuid.UUID]:
    """The replication groups here that some tables are in."""
    return set(connection.scalars(_of(tables)))


def _of(tables: Collection[QualifiedName]) -> sa.Select[uuid.UUID]:
    at = group_schema.c
    named = [(table.schema, table.name) for table in tables]
    return select(at.group_id).where(
        sa.tuple_(at.table_schema, at.table_name).in_(named)
    )


#: The tables of groups that are quiet here, for statements that read more.
QUIET = as_json(
    select(group_schema.c.table_schema, group_schema.c.table_name).join(
        quiet_group, quiet_group.c.group_id == group_schema.c.group_id
    ),
    "quiet",
)


def tables(found: Sequence[Mapping[str, str]] | None) -> frozenset[QualifiedName]:
    """The tables in the column `QUIET` of a row."""
    return frozenset(
        QualifiedName(one["table_schema"], one["table_name"]) for one in found or ()
    )


def no_longer_held(connection: Connection) -> list[int]:
    """The transactions parked for a quiet group whose groups are no longer quiet.

    Their numbers, in the order in which they came.
    """
    at, call = group_schema.c, error_call.c
    still = (
        select(call.error_id)
        .join(
            group_schema,
            sa.and_(
                at.table_schema == call.target_schema,
                at.table_name == call.target_table,
            ),
        )
        .join(quiet_group, quiet_group.c.group_id == at.group_id)
    )
    number = error_transaction.c.id
    wanted = select(number).where(
        error_transaction.c.reason == HELD, number.not_in(still)
    )
    return list(connection.scalars(wanted.order_by(number)))


def _read(
    connection: Connection, wanted: sa.Select[*tuple[Any, ...]]
) -> list[QuietGroup]:
    return [
        QuietGroup(group_id=one.group_id, by=one.quiet_by, since=one.since, why=one.why)
        for one in connection.execute(wanted)
    ]
