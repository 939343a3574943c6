"""Base table, view and queue of a snapshot, altered in one transaction.

The caller has locked them, and keeps pushes out. Before, new columns have been added to
the base table under other names, where nobody sees them, and filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from sqlalchemy import Connection

from deferred.queues import alter_columns as queued
from deferred.queues.queue import Queue, find_queue
from masters.numbers import columns as numbered_columns
from sites.catalog import SCHEMA
from sites.names import QualifiedName
from sites.tables import columns as table_columns
from sites.tables import ddl, views_again, wide
from sites.tables.ddl import NewColumn
from sites.tables.table import Column, Table, describe
from snapshots.creating import base_table, columns_asked, create
from snapshots.creating.columns_asked import refused
from snapshots.creating.columns_plan import Plan
from snapshots.definitions import rewrites, snapshot
from snapshots.definitions.snapshot import carried

#: The names of columns that are not filled yet; a crash may have left some.
_UNSEEN = "snaptide$new$"


def unseen(plan: Plan) -> dict[str, str]:
    """The names under which new columns are filled."""
    return {name: f"{_UNSEEN}{n}" for n, name in enumerate(plan.filled, 1)}


def add_unseen(connection: Connection, plan: Plan) -> None:
    """Add new columns to the base table, which does not have its rows written anew."""
    remove_unseen(connection, plan)
    names = unseen(plan)
    for name, constant in plan.filled.items():
        column = plan.definition.table.column(name)
        new = NewColumn(
            name=names[name],
            type=column.type,
            nullable=column.holds_null or constant is None,
            default=constant,
            collation=column.collation,
        )
        with create.naming_what_is_missing(plan.now):
            ddl.add_columns(connection, plan.now.base, [new])
        # Rows that users insert meanwhile get it, too.
        ddl.set_default(connection, plan.now.base, names[name], constant)
        if name in plan.definition.numbers:
            numbered_columns.define(
                connection,
                snapshot=plan.now.key,
                column=name,
                method=plan.definition.numbers[name],
                master=plan.master.name,
                table=plan.now.master,
            )
    queue = find_queue(connection, plan.before.key)
    if queue is not None:
        base = describe(connection, plan.now.base)
        _refuse_wide(connection, plan, queue, [*names.values()], base)


def remove_unseen(connection: Connection, plan: Plan) -> None:
    """Drop new columns that nobody has seen, and forget the numbers they were to draw.

    Where there are none, a commit may have shown them whose answer was lost.
    """
    one = plan.before
    base = describe(connection, one.base)
    found = [name for name in base.names if name.startswith(_UNSEEN)]
    if not found:
        return
    table_columns.drop(connection, base.qualified, found)
    for drawing in numbered_columns.all_of(connection, snapshot=one.key):
        if drawing.column_name not in one.columns:
            numbered_columns.remove(connection, one.key, drawing.column_name)


def alter_tables(
    connection: Connection, plan: Plan, queue: Queue | None, *, filled: bool
) -> tuple[str, ...]:
    """Alter base table, view and queue, and note the columns; what is left out.

    Parameters:
        filled: new columns have their values; else the next refresh compares all rows.
    """
    wanted, now = plan.wanted, plan.now
    names = wanted.on_the_way
    if names:
        table_columns.rename(connection, now.base, names)
        if now.loaded:
            table_columns.rename(connection, now.qualified, names, view=True)
        if queue is not None:
            queue = queued.rename(connection, queue, names)
    if wanted.drop or wanted.widen:
        queue = _make_anew(connection, plan, queue)
    _show(connection, plan)
    base = describe(connection, now.base)
    _note(connection, plan, base, filled=filled)
    if wanted.add:
        create.refuse_other_types(connection, now, plan.definition)
        if queue is not None:
            _add_to_queue(connection, plan, queue, base)
        if now.loaded:
            base_table.create_user_view(connection, now, replace=True)
    added = {name: base.column(name) for name in wanted.add}
    return tuple(columns_asked.lacking(plan.definition, added))


def _make_anew(connection: Connection, plan: Plan, queue: Queue | None) -> Queue | None:
    """Drop and widen columns, which the view has to be made anew for."""
    now, names = plan.now, plan.wanted.on_the_way
    gone = [names.get(name, name) for name in plan.wanted.drop]
    what = f"Column {', '.join(plan.wanted.drop)}"
    carried_too = [name for name in gone if queue and name in queue.columns]
    if queue is not None and carried_too:
        _refuse_wide(connection, plan, queue, [])
        partial = plan.definition.partial
        queue = queued.drop(connection, queue, carried_too, partial=partial)
    again = views_again.kept(connection, now.qualified) if now.loaded else nullcontext()
    with again:
        if gone:
            with ddl.dropping(what):
                table_columns.drop(connection, now.base, gone)
        if plan.widened:
            queue = _widen(connection, plan, queue)
        left = [name for name in now.columns if name not in plan.wanted.add]
        if now.loaded:
            kept = replace(now, columns=tuple(left))
            with create.naming_what_is_missing(now):
                base_table.create_user_view(connection, kept)
    for name in plan.wanted.drop:
        numbered_columns.remove(connection, now.key, name)
    return queue


def _widen(connection: Connection, plan: Plan, queue: Queue | None) -> Queue | None:
    """Give columns of base table and queue the master's types."""
    types = {
        name: f"{column.type} COLLATE {column.collation}"
        if column.collation
        else column.type
        for name, column in plan.widened.items()
    }
    table_columns.widen(connection, plan.now.base, types)
    if queue is None:
        return None
    _refuse_wide(connection, plan, queue, [])
    base = describe(connection, plan.now.base)
    return queued.widen(connection, queue, base, [*types])


def _show(connection: Connection, plan: Plan) -> None:
    """Give the new columns of the base table their names and defaults."""
    if names := unseen(plan):
        back = {hidden: name for name, hidden in names.items()}
        table_columns.rename(connection, plan.now.base, back)
    for name in names:
        default = _default(connection, plan, plan.definition.table.column(name))
        ddl.set_default(connection, plan.now.base, name, default)


def _default(connection: Connection, plan: Plan, column: Column) -> str | None:
    for one in numbered_columns.all_of(connection, snapshot=plan.now.key):
        if one.column_name == column.name:
            return numbered_columns.default_of(one.id, one.method)
    return base_table.default_of(column, plan.definition)


def _add_to_queue(
    connection: Connection,
    plan: Plan,
    queue: Queue,
    base: Table,
) -> None:
    added = {
        name: value
        for name, value in plan.filled.items()
        if name in carried(plan.now, base)
    }
    queued.add(
        connection,
        queue,
        base,
        plan.definition.table,
        added,
        partial=plan.definition.partial,
    )


def _refuse_wide(
    connection: Connection,
    plan: Plan,
    queue: Queue,
    added: Sequence[str],
    base: Table | None = None,
) -> None:
    """Refuse a queue whose rows are, or would be, stored in another way."""
    is_wide = wide.is_wide(connection, QualifiedName(SCHEMA, queue.queue_table))
    if is_wide or (base and wide.overflows(base, [*queue.columns, *added])):
        raise refused(plan.before, "its rows are too wide for that")


def _note(connection: Connection, plan: Plan, base: Table, *, filled: bool) -> None:
    """Write the columns down.

    Snapshots whose conditions ask for a new column are compared in full: it does not
    show the moment of the group, by which one can tell whether their rows may move.
    """
    now = plan.now
    for one in snapshot.members(connection, now.refresh_group):
        if one.asked.get(now.master, frozenset()) & {*plan.wanted.add}:
            connection.execute(snapshot.change(one).values(**rewrites.COMPARED))
    numbers = [base.column(name).number for name in now.columns]
    states = None if now.master_columns is None else list(now.master_columns)
    unknown = rewrites.COMPARED if plan.wanted.add and not filled else {}
    connection.execute(
        snapshot.redefine(now).values(
            columns=list(now.columns),
            column_numbers=numbers,
            master_columns=states,
            ddl_followed=list(now.ddl_followed),
            **unknown,
        )
    )
