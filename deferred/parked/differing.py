"""Rows that may differ between masters of a group after a decision at this one.

If a parked transaction is deleted, or retried with other values, other masters may have
its rows as it made them; and they have the changes that a restored master has lost.
What rules and foreign keys decide here alone is listed too (`decided_alone`).
Such rows are listed here until a comparison finds them equal (`groups.differences`).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, Uuid, and_, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB, insert

from deferred.error_catalog import differing_row, error_call, error_procedure
from masters.catalog import group_schema
from sites import QualifiedName
from sites.writing.key_objects import staged_keys
from sites.writing.staged import Staged

#: If a transaction has more rows than this, its tables are listed instead of the rows;
#: so is a table of which rules and foreign keys have listed more.
MANY = 1000

#: What a row of the list is known by.
_ROW = ["group_id", "table_schema", "table_name", "key"]

#: The condition that a call's table is in a group.
_IN_A_GROUP = and_(
    group_schema.c.table_schema == error_call.c.target_schema,
    group_schema.c.table_name == error_call.c.target_table,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A row that may differ between masters, or all rows of a table."""

    id: int
    group_id: uuid.UUID
    table: QualifiedName
    #: column -> value as text; None is any row of the table
    key: Mapping[str, str] | None
    why: str
    since: datetime


def of_a_group(error_id: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Whether a parked transaction changes a table that is in a group, or may do so."""
    called = sa.exists().where(error_procedure.c.error_id == error_id)
    return sa.or_(
        sa.exists().where(error_call.c.error_id == error_id, _IN_A_GROUP),
        and_(called, sa.exists(select(group_schema))),
    )


def note_parked(
    connection: Connection, error_id: int, why: str, *, but: Collection[int] = ()
) -> None:
    """List the rows that a parked transaction changes, before it is removed.

    If it calls a procedure, other masters may have run it, and nobody knows which rows
    it changes: all tables are listed.

    Parameters:
        but: the numbers of calls that stay parked.
    """
    called = sa.exists().where(error_procedure.c.error_id == error_id)
    if connection.scalar(select(called)):
        note_all(connection, why)
        return
    call = error_call.c
    stay = literal(list(but), sa.ARRAY(sa.BigInteger))
    mine = and_(call.error_id == error_id, _IN_A_GROUP, call.call_no != func.all(stay))
    keys = sa.union(
        *(
            select(
                group_schema.c.group_id,
                call.target_schema,
                call.target_table,
                _key(image).label("key"),
            ).where(mine, image.is_not(None))
            for image in (call.old_values, call.new_values)
        )
    ).subquery()
    if (connection.scalar(select(func.count()).select_from(keys)) or 0) > MANY:
        tables = select(*list(keys.c)[:3], sa.null()).distinct()
    else:
        tables = select(*keys.c)
    _note(connection, tables, why)


def note_keys(
    connection: Connection,
    group_id: uuid.UUID,
    table: QualifiedName,
    keys: sa.Subquery,
    why: str,
) -> None:
    """List rows of a table; or the whole table, if more than `MANY` are listed then.

    Parameters:
        keys: a query whose column `key` is an object with a text for each column.
    """
    whole = [literal(group_id, Uuid), literal(table.schema), literal(table.name)]
    _note(connection, select(*whole, keys.c.key).limit(MANY + 1), why)
    rows = and_(
        differing_row.c.group_id == group_id,
        differing_row.c.table_schema == table.schema,
        differing_row.c.table_name == table.name,
        differing_row.c.key.is_not(None),
    )
    number = select(func.count()).select_from(differing_row).where(rows)
    if (connection.scalar(number) or 0) > MANY:
        connection.execute(sa.delete(differing_row).where(rows))
        _note(connection, select(*whole, sa.null()), why)


def note_staged(
    connection: Connection, staged: Staged, which: sa.ColumnElement[bool], why: str
) -> None:
    """List the rows of staged changes, if their table is in a group.

    Parameters:
        which: the changes.
    """
    table = staged.table.qualified
    mine = select(group_schema.c.group_id).where(
        group_schema.c.table_schema == table.schema,
        group_schema.c.table_name == table.name,
    )
    for group_id in connection.scalars(mine).all():
        note_keys(connection, group_id, table, staged_keys(staged, which), why)


def note_all(connection: Connection, why: str) -> None:
    """List all tables here that are in a group, each with all its rows."""
    at = group_schema.c
    _note(
        connection,
        select(at.group_id, at.table_schema, at.table_name, sa.null()),
        why,
    )


def listed(
    connection: Connection, group_id: uuid.UUID | None = None
) -> list[Differing]:
    """The rows that are listed here, of one group or of all."""
    mine = sa.true() if group_id is None else differing_row.c.group_id == group_id
    rows = connection.execute(select(differing_row).where(mine).order_by("id"))
    return [
        Differing(
            id=row.id,
            group_id=row.group_id,
            table=QualifiedName(row.table_schema, row.table_name),
            key=row.key,
            why=row.why,
            since=row.since,
        )
        for row in rows
    ]


def drop(connection: Connection, ids: Collection[int]) -> None:
    """Remove rows from the list: they are equal, or no longer in a group.

    A row that was listed again since the list was read has another number, and stays.
    """
    gone = differing_row.c.id == func.any(literal(list(ids), sa.ARRAY(sa.BigInteger)))
    connection.execute(sa.delete(differing_row).where(gone))


def forget(connection: Connection, group_id: uuid.UUID) -> None:
    """Remove the rows of a group that this site leaves."""
    mine = differing_row.c.group_id == group_id
    connection.execute(sa.delete(differing_row).where(mine))


def _key(image: sa.ColumnElement[object]) -> sa.ScalarSelect[object]:
    name = func.unnest(error_call.c.identity_columns).column_valued("name")
    value = sa.cast(image, JSONB).op("->>")(name)
    return select(func.jsonb_object_agg(name, value)).scalar_subquery()


def _note(
    connection: Connection, rows: sa.Select[tuple[object, ...]], why: str
) -> None:
    found = rows.add_columns(literal(why))
    new = insert(differing_row).from_select([*_ROW, "why"], found)
    # A new number: who has found the row equal before must not remove it now.
    again = {"id": sa.text("DEFAULT"), "why": new.excluded.why}
    connection.execute(new.on_conflict_do_update(index_elements=_ROW, set_=again))
