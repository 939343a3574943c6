"""The queue of a replication group's table at one of its masters.

It records the writes of users and of pushes there, as the queue of a snapshot records
the writes of users to its base table, and keeps them until all the masters that they go
to have answered.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import delivery_row, destination, route
from deferred.catalog import queue as queue_catalog
from deferred.errors import TooWide
from deferred.queues import define, queue, queue_function
from deferred.queues.queue import Queue
from sites import QualifiedName, names
from sites.capture import triggers
from sites.catalog import SCHEMA
from sites.sessions.exchange import raw
from sites.tables import ddl, wide
from sites.tables.ddl import NewColumn
from sites.tables.table import Table

#: By destination, the masters whose changes go there; '' is the one that has the queue.
Routes = Mapping[str, Sequence[str]]


def correction(target: str) -> str:
    """The source of transactions that correct rows of one master.

    Only their own route leads anywhere: other masters get no such transaction, and the
    target does not send it on.
    """
    return f"rectify:{target}"


def open_to_corrections(
    connection: Connection, table: QualifiedName, target: str
) -> None:
    """Let corrections of a master's rows go there by a table's queue from now on.

    The route stays as long as other changes go there: corrections are kept and sent
    again like any call. Commit it before the first correction is queued. Writes route
    and the views of calls.
    """
    new = insert(route).values(
        queue_id=_number(connection, table),
        destination=target,
        source=correction(target),
        since=func.pg_current_snapshot(),
    )
    if connection.execute(new.on_conflict_do_nothing()).rowcount:
        define.show_calls(connection)


def arrange(
    connection: Connection,
    group: uuid.UUID,
    tables: Sequence[tuple[Table, Sequence[str]]],
    routes: Routes,
    error_action: str,
) -> None:
    """Send the changes of tables along exactly these routes from now on.

    Writes the catalog, the queues with their triggers, and the views of calls. Waits
    for sessions that write to a table, if its queue is created or removed.

    Parameters:
        tables: each with the columns that are carried.
        routes: if empty, removes the queues and deletes their calls.
        error_action: what a push does with transactions that cannot be applied.
    """
    if not (tables and routes):
        remove(connection, *(table.qualified for table, _ in tables))
        return
    before = queue.list_queues(connection)
    there = _numbers(connection, *(table.qualified for table, _ in tables))
    numbers = {
        table.qualified: there.get(table.qualified)
        or _create(connection, group, table, columns)
        for table, columns in tables
    }
    _set_routes(connection, [*numbers.values()], routes)
    mine = queue_catalog.c.id.in_(numbers.values())
    connection.execute(
        sa.update(queue_catalog).where(mine).values(error_action=error_action)
    )
    define.know_destinations(connection, *routes)
    after = queue.list_queues(connection)
    for table, _ in tables:
        ways = [one for one in after if one.id == numbers[table.qualified]]
        capture = define.capture_along(table, ways)
        if table.qualified in there:
            queue_function.replace(connection, capture)
        else:
            queue_function.install(connection, capture)
    if after != before:
        define.show_calls(connection)


def extend(connection: Connection, table: Table, columns: Sequence[str]) -> None:
    """Add a table's new columns to its queue; `arrange` has to follow.

    Waiting calls get the columns' defaults, as the rows did everywhere. Writes the
    queue, its catalog, and the views of calls.

    Parameters:
        columns: all columns that are to be carried.

    Raises:
        TooWide: the queue would have to be stored in another way.
    """
    number = _number(connection, table.qualified)
    if number is None:
        return
    before = found(connection, table.qualified)[0]
    new = [name for name in columns if name not in before.columns]
    if not new:
        return
    queue_table = QualifiedName(SCHEMA, before.queue_table)
    after = (*before.columns, *new)
    if wide.is_wide(connection, queue_table) or wide.overflows(table, after):
        raise TooWide(
            f"Calls of {table.qualified} fill more than a page.",
            table=str(table.qualified),
        )
    defaults = ddl.defaults(connection, table)
    ddl.add_columns(
        connection,
        queue_table,
        [
            NewColumn(
                name=f"{side}{after.index(name) + 1}",
                type=table.column(name).recorded,
                collation=table.column(name).collation,
                default=defaults.get(name),
            )
            for side in ("o", "n")
            for name in new
        ],
    )
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == number)
        .values(
            columns=list(after),
            column_numbers=[
                *before.column_numbers,
                *(table.column(name).number for name in new),
            ],
        )
    )
    view = queue.group_view(table.qualified)
    ddl.drop_view(connection, view)
    raw(connection).execute(ddl.checked_view(view, table.qualified, after, None))
    define.show_calls(connection)


def found(connection: Connection, *tables: QualifiedName) -> list[Queue]:
    """The queues of tables of groups, each once for each of its destinations."""
    return [
        one
        for one in queue.list_queues(connection)
        if one.group_id is not None and one.base in tables
    ]


def remove(connection: Connection, *tables: QualifiedName) -> None:
    """Stop queueing the changes of a group's tables, and delete their calls."""
    there = _numbers(connection, *tables) if tables else {}
    if not there:
        return
    queues = found(connection, *there)
    mine = queue_catalog.c.id.in_(there.values())
    connection.execute(sa.delete(queue_catalog).where(mine))
    note_forgotten(connection, {queue.destination for queue in queues})
    define.show_calls(connection)
    for table in there:
        name = names.derived(queue_function.PREFIX, table)
        triggers.remove(connection, name)
        wide.drop(connection, QualifiedName(SCHEMA, name))
        ddl.drop_view(connection, queue.group_view(table))


def _create(
    connection: Connection, group: uuid.UUID, table: Table, columns: Sequence[str]
) -> int:
    name = names.derived(queue_function.PREFIX, table.qualified)
    define.create_table(connection, name, table, columns)
    view = queue.group_view(table.qualified)
    raw(connection).execute(ddl.checked_view(view, table.qualified, columns, None))
    number: int = connection.execute(
        sa.insert(queue_catalog)
        .values(
            snapshot=str(table.qualified),
            group_id=group,
            base_schema=table.schema,
            base_table=table.name,
            queue_table=name,
            target_schema=table.schema,
            target_table=table.name,
            columns=list(columns),
            column_numbers=[table.column(name).number for name in columns],
            identity_columns=list(table.key),
            partial=False,
        )
        .returning(queue_catalog.c.id)
    ).scalar_one()
    return number


def _set_routes(
    connection: Connection, numbers: Collection[int], routes: Routes
) -> None:
    """Start new routes of queues now, and end the ones that are no longer listed.

    A new route does not send the calls that are already in the queue: a new master got
    them as rows, and other masters got them by another route.
    """
    wanted = [(to, source) for to, sources in routes.items() for source in sources]
    kept = _as_rows([*wanted, *((to, correction(to)) for to in routes)])
    way = sa.tuple_(route.c.destination, route.c.source)
    ended = connection.scalars(
        sa.delete(route)
        .where(route.c.queue_id.in_(numbers), way.not_in(select(kept)))
        .returning(route.c.destination)
    )
    note_forgotten(connection, set(ended))
    ways = _as_rows(wanted)
    its = queue_catalog.c.id
    new = (
        select(its, ways.c.destination, ways.c.source, func.pg_current_snapshot())
        .join_from(queue_catalog, ways, sa.true())
        .where(its.in_(numbers))
    )
    columns = ["queue_id", "destination", "source", "since"]
    connection.execute(insert(route).from_select(columns, new).on_conflict_do_nothing())


def _as_rows(ways: Sequence[tuple[str, str]]) -> sa.TableValuedAlias:
    """Destinations and sources as rows that a statement has in two arrays.

    It takes 65,535 values at most, and compares with a list of thousands of pairs one
    inside the other, deeper than its stack. The middle of a star has more routes.
    """
    sides = [to for to, _ in ways], [source for _, source in ways]
    return (
        func.unnest(*(sa.cast(side, sa.ARRAY(sa.Text)) for side in sides))
        .table_valued("destination", "source")
        .render_derived()
    )


def note_forgotten(connection: Connection, destinations: Collection[str]) -> None:
    """Note that delivered calls of ended routes cannot be pushed again.

    A destination that is restored would miss them. Deliveries that are in no batch yet
    are deleted, because they are not to be sent.
    """
    if not destinations:
        return
    for name in sorted(destinations):
        left = sa.union_all(*queue.call_numbers(connection, name)).subquery()
        connection.execute(
            sa.delete(delivery_row).where(
                delivery_row.c.destination == name,
                delivery_row.c.batch.is_(None),
                delivery_row.c.xid.not_in(select(left.c.xid)),
            )
        )
    connection.execute(
        sa.update(destination)
        .where(destination.c.name.in_(destinations))
        .values(
            purged_batch=destination.c.batch_no, purged_order=destination.c.batch_end
        )
    )


def _number(connection: Connection, table: QualifiedName) -> int | None:
    return _numbers(connection, table).get(table)


def _numbers(
    connection: Connection, *tables: QualifiedName
) -> dict[QualifiedName, int]:
    """The numbers of the queues of those tables that have one."""
    its = queue_catalog.c
    wanted = [(table.schema, table.name) for table in tables]
    rows = connection.execute(
        select(its.base_schema, its.base_table, its.id).where(
            its.group_id.is_not(None),
            sa.tuple_(its.base_schema, its.base_table).in_(wanted),
        )
    )
    return {QualifiedName(schema, name): number for schema, name, number in rows}
