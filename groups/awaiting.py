"""Changes that may yet make rows different which are equal at all masters now.

What was decided at a master may have overruled a change that it has queued before. The
other masters may get that change later; if they have the row that it starts from, they
apply it without a conflict. So may a master that has parked a change, or a procedure.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, and_, cast, exists, or_, select

from deferred.catalog import delivery
from deferred.error_catalog import error_call, error_procedure
from deferred.queues.queue import (
    Queue,
    delivery_of,
    is_delivered,
    undelivered_procedures,
)
from deferred.row_history.events import Wanted
from groups import table_queue
from sites import QualifiedName
from sites.tables.table import Table, describe


def on_its_way(
    connection: Connection, table: QualifiedName, wanted: Wanted | None
) -> bool:
    """Whether a master has yet to send a change that starts from a row as it is now.

    Calls of procedures count too, because these may change any row there.

    Parameters:
        wanted: the row; None is any row of the table.
    """
    queues = table_queue.found(connection, table)
    base = describe(connection, table) if queues else None
    return base is not None and any(
        connection.scalar(select(_unsent(queue, base, wanted)))
        or undelivered_procedures(connection, queue.destination)
        for queue in queues
    )


def is_parked(
    connections: Iterable[Connection], table: QualifiedName, wanted: Wanted | None
) -> bool:
    """Whether a change of a row, or of any, is in an error queue of some masters.

    Calls of procedures count too, because these may change any row there.
    """
    call = error_call.c
    mine: ColumnElement[bool] = and_(
        call.target_schema == table.schema, call.target_table == table.name
    )
    if wanted is not None:
        images = (call.old_values, call.new_values)
        mine = and_(mine, or_(*(wanted.found_in(image) for image in images)))
    found = select(or_(exists().where(mine), exists(error_procedure.c.error_id)))
    return any(connection.scalar(found) for connection in connections)


def _unsent(queue: Queue, base: Table, wanted: Wanted | None) -> ColumnElement[bool]:
    calls = queue.sql()
    found = (
        exists()
        .select_from(calls.outerjoin(delivery, delivery_of(queue, calls)))
        .where(sa.not_(is_delivered()), queue.goes_there(calls.c.xid))
        .where(_starts_from_now(queue, calls, base))
    )
    if wanted is None:
        return found
    sides = [partial(_image, queue, calls, side) for side in "on"]
    return found.where(or_(*map(wanted.found, sides)))


def _starts_from_now(
    queue: Queue, calls: sa.TableClause, base: Table
) -> ColumnElement[bool]:
    """Whether a call changes the row that is there, or inserts one that is not.

    An update needs the row to be as it was in the columns that it changes.
    """
    row = base.sql()
    kind = sa.func.upper(cast(calls.c.kind, Text))
    old, new = (partial(_image, queue, calls, side) for side in "on")
    stays = {c: base.column(c).unchanged(old(c), new(c)) for c in queue.columns}
    agrees = [
        or_(and_(kind == "U", same), base.column(c).unchanged(old(c), row.c[c]))
        for c, same in stays.items()
    ]
    at_old, at_new = (
        [row.c[c] == side(c) for c in queue.identity_columns] for side in (old, new)
    )
    inserted = sa.not_(exists().select_from(row).where(*at_new))
    updated = or_(kind != "U", sa.not_(and_(*stays.values())))
    changed = exists().select_from(row).where(*at_old, *agrees)
    return sa.case((kind == "I", inserted), else_=and_(updated, changed))


def _image(
    queue: Queue, calls: sa.TableClause, side: str, name: str
) -> ColumnElement[Any]:
    return calls.c[f"{side}{queue.columns.index(name) + 1}"]
