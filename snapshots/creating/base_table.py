"""The base table of a snapshot, and everything else it has at its site."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa
from psycopg import errors as pg
from psycopg.sql import Composed
from sqlalchemy import Connection, func, select

from deferred.queues import define, queue, refresh_coverage
from masters.log.snapshot_log import ROWID
from masters.numbers import columns as numbered_columns
from sites.capture import guards, triggers
from sites.catalog import SCHEMA
from sites.errors import UnknownTable
from sites.names import QualifiedName, numbered
from sites.sessions.exchange import raw
from sites.sessions.site import Site
from sites.tables import ddl, indexes, roles
from sites.tables.analyze import analyze
from sites.tables.ddl import NewColumn
from sites.tables.table import Column, ForeignKey, Table, describe
from sites.transfer import transport
from snapshots.definitions import frozen, parents, refresh_group
from snapshots.definitions.definition import Definition
from snapshots.definitions.policy import Leaving
from snapshots.definitions.snapshot import Snapshot, all_of, carried
from snapshots.differences import stage
from snapshots.differences.window import Member

READ_ONLY = "This snapshot is read-only"
NO_TRUNCATE = "A snapshot cannot be truncated"

#: PostgreSQL refuses the foreign key: the parent lacks a unique constraint that the
#: master got later, a column has another type, a constraint of the site's own has the
#: name, or our user does not own the table.
_CANNOT_LINK = (
    pg.InvalidForeignKey,
    pg.DatatypeMismatch,
    pg.DuplicateObject,
    pg.InsufficientPrivilege,
)


def create(
    connection: Connection, snapshot: Snapshot, definition: Definition, master: str
) -> None:
    """Create the base table, empty and without constraints, and the extra keys.

    Parameters:
        master: the site that leases it numbers.
    """
    chosen = [definition.table.column(name) for name in definition.columns]
    defaults = {
        column: numbered_columns.define(
            connection,
            snapshot=snapshot.key,
            column=column,
            method=method,
            master=master,
            table=snapshot.master,
        )
        for column, method in definition.numbers.items()
    }
    made = [_new(c, definition, defaults.get(c.name)) for c in chosen]
    ddl.create_table(connection, snapshot.base, made)
    roles.open_to(connection, roles.BASE, snapshot.base)
    keys = [
        NewColumn(name=k, type=definition.table.column(c).type)
        for k, c in zip(snapshot.key_names, snapshot.identity_columns, strict=True)
    ]
    ddl.create_table(
        connection,
        QualifiedName(SCHEMA, snapshot.extra_table),
        [*keys, *_EXTRA_COLUMNS],
    )


_EXTRA_COLUMNS = [
    NewColumn(name="reason", type="text", nullable=False, default="'trigger'"),
    NewColumn(name="xid", type="xid8", nullable=False, default="pg_current_xact_id()"),
    # The place of the call that purge folded into this key: pending until answered.
    NewColumn(name="batch_no", type="bigint"),
    NewColumn(name="order_no", type="bigint"),
    # A synchronous change is pending until a refresh sees this transaction there.
    NewColumn(name="master_xid", type="xid8"),
]


def constrain(
    connection: Connection, snapshot: Snapshot, definition: Definition
) -> None:
    """Add keys, unique constraints and indexes, once the rows are there."""
    identity = tuple(snapshot.identity_columns)
    uniques = {unique.columns: unique for unique in reversed(definition.uniques())}
    primary = definition.table.key
    if primary and set(primary) <= set(snapshot.columns):
        key = uniques.pop(primary)
        ddl.add_key(connection, snapshot.base, primary, primary=True, like=key)
    if identity != primary:
        ddl.add_key(
            connection, snapshot.base, identity, like=uniques.pop(identity, None)
        )
    for columns, unique in uniques.items():
        ddl.add_key(connection, snapshot.base, columns, like=unique)
    for index in definition.indexes:
        indexes.create(connection, snapshot.base, index)
    base = snapshot.base
    analyze(connection, sa.table(base.name, schema=base.schema))


def open_to_users(
    connection: Connection, snapshot: Snapshot, definition: Definition, destination: str
) -> None:
    """Create triggers and the user view: from now on, users can write."""
    base = describe(connection, snapshot.base)
    create_user_view(connection, snapshot)
    if snapshot.updatable:
        define.create_queue(
            connection,
            snapshot=snapshot.key,
            base=base,
            destination=destination,
            target=snapshot.master,
            columns=carried(snapshot, base),
            identity=snapshot.identity_columns,
            partial=definition.partial,
            extra_table=snapshot.extra_table,
            refuse_new_keys=definition.partial and not definition.with_rowid,
            synchronous=refresh_group.is_synchronous(
                connection, snapshot.refresh_group
            ),
        )
    _guard(connection, snapshot, base)
    frozen.guard(connection, snapshot, base)
    make_log_view(connection, snapshot)


def create_user_view(
    connection: Connection, snapshot: Snapshot, *, replace: bool = False
) -> None:
    """Create the view that users read and write.

    Parameters:
        replace: whether the view is there already.

    Raises:
        NeedsParent: see `parents.at_site`.
    """
    raw(connection).execute(user_view(connection, snapshot, replace=replace))


def user_view(
    connection: Connection, snapshot: Snapshot, *, replace: bool = False
) -> Composed:
    """The statement that creates it, with the snapshot's condition.

    Raises:
        NeedsParent: see `parents.at_site`.
    """
    return ddl.checked_view(
        snapshot.qualified,
        snapshot.base,
        snapshot.columns,
        parents.at_site(connection, snapshot),
        alias=snapshot.master_table,
        replace=replace,
    )


@dataclass(frozen=True, slots=True)
class _Reference:
    """A foreign key of a master table that its snapshot should have too."""

    child: Member
    parent: Member
    key: ForeignKey


def link(site: Site, members: Sequence[Member]) -> None:
    """Add the foreign keys whose two snapshots are there now; commits.

    Each key is added in a transaction of its own: if the table cannot be locked within
    500 ms, because users write to it, a later refresh adds the key. A second
    transaction checks the rows, while users go on writing. A key that the site cannot
    have does not fail the refresh, whose rows are written already.
    """
    for reference in _missing_references(members):
        with suppress(pg.LockNotAvailable, *_CANNOT_LINK):
            for step in (_add_reference, _check_reference):
                with site.transaction() as connection:
                    brief = func.set_config("lock_timeout", "500ms", True)
                    connection.execute(select(brief))
                    step(connection, reference)


def _missing_references(members: Sequence[Member]) -> list[_Reference]:
    """Find the foreign keys between the snapshots of a group that the site lacks.

    A key is copied if the parents of all rows are there and the key holds for all
    rows: otherwise the site would refuse children that the master has.
    """
    return [
        _Reference(child, parent, key)
        for child in members
        for key in child.master.foreign_keys
        for parent in members
        if key.parent == parent.snapshot.master
        and key.always
        and parents.follows(
            child.snapshot, key, parent.snapshot, hidden=parent.master.divided
        )
        and not parents.changes_read_only(key, child.snapshot, parent.snapshot)
        and key.name not in {f.name for f in child.base.foreign_keys}
        and _fits(key, child.snapshot, parent.snapshot)
    ]


def _add_reference(connection: Connection, reference: _Reference) -> None:
    """Add a foreign key for rows written from now on; users wait for it."""
    child, parent = reference.child.snapshot.base, reference.parent.snapshot.base
    ddl.add_foreign_key(connection, child, parent, reference.key)


def _check_reference(connection: Connection, reference: _Reference) -> None:
    """Validate the key; it stays NOT VALID if users have broken it meanwhile."""
    child = reference.child.snapshot.base
    with suppress(pg.ForeignKeyViolation), connection.begin_nested():
        ddl.validate_constraint(connection, child, reference.key.name)


def close_to_users(connection: Connection, snapshot: Snapshot) -> None:
    """Drop the user view, and wait for all who still write the rows.

    Foreign keys and triggers of users write the base table without the view.
    """
    ddl.drop_view(connection, snapshot.qualified)
    if ddl.exists(connection, snapshot.base):
        ddl.lock(connection, snapshot.base)


def drop(connection: Connection, snapshot: Snapshot, *, force: bool) -> None:
    """Drop what a snapshot has at its site, after `close_to_users`.

    Raises:
        QueueNotEmpty: calls are not delivered yet, and `force` is not set.
    """
    ddl.drop_view(connection, QualifiedName(SCHEMA, snapshot.log_view))
    define.drop_queue(connection, snapshot.key, force=force)
    ddl.drop_table(connection, snapshot.base)
    numbered_columns.remove(connection, snapshot.key)
    triggers.remove(connection, _guard_function(snapshot))
    frozen.remove(connection, snapshot)
    ddl.drop_table(connection, QualifiedName(SCHEMA, snapshot.extra_table))
    stage.drop(connection, snapshot)


def default_of(column: Column, definition: Definition) -> str | None:
    """The master's default of a column, if the site can use it as it is."""
    needs = definition.needs.get(column.number)
    if definition.is_generated(column):
        return column.default
    keep = not column.generated and needs is not None and not needs.foreign
    return column.default if keep else None


def _new(column: Column, definition: Definition, drawn: str | None) -> NewColumn:
    return NewColumn(
        name=column.name,
        type=column.type,
        nullable=column.holds_null and column.name != ROWID,
        default=drawn or default_of(column, definition),
        collation=column.collation,
        generated=definition.is_generated(column),
    )


def _guard(connection: Connection, snapshot: Snapshot, base: Table) -> None:
    # All other changes of an updatable snapshot are queued.
    events = ["TRUNCATE"] if snapshot.updatable else guards.ALL
    message = NO_TRUNCATE if snapshot.updatable else READ_ONLY
    hint = (
        "Delete the rows: a TRUNCATE could not be sent to the master."
        if snapshot.updatable
        else "Change the rows at the master, or create an updatable snapshot."
    )
    guards.install(
        connection,
        base,
        _guard_function(snapshot),
        events=events,
        unrecorded=events,
        message=message,
        hint=hint,
        open_to=guards.MERGED,
    )


def _guard_function(snapshot: Snapshot) -> str:
    return "guard" + snapshot.extra_table.removeprefix("extra")


def make_log_view(connection: Connection, snapshot: Snapshot) -> None:
    """Create the updatable snapshot log: the keys to look at again, and why.

    The view depends on where the snapshot's queue goes: replace it when that changes.
    """
    extra = snapshot.extra()
    keys = numbered("k", snapshot.identity_columns)
    query: sa.Select[tuple[object, ...]] | sa.CompoundSelect[tuple[object, ...]]
    query = select(*(extra.c[k] for k in keys), extra.c.reason.label("source"))
    calls = queue.find_queue(connection, snapshot.key)
    if calls is not None:
        inner = refresh_coverage.uncovered_keys(calls).subquery()
        query = select(*inner.c, sa.literal("call").label("source")).union(query)
    ddl.create_view(
        connection,
        QualifiedName(SCHEMA, snapshot.log_view),
        transport.literal_text(query),
    )


def replace_log_views(connection: Connection) -> None:
    """Replace all updatable snapshot logs with those of this version."""
    for one in all_of(connection):
        if one.updatable:
            make_log_view(connection, one)


def replace_guards(connection: Connection) -> None:
    """Install the guards of this version on all loaded snapshots.

    Users wait where a trigger is new. A snapshot without a base table is skipped.
    """
    for one in all_of(connection):
        if one.loaded:
            with suppress(UnknownTable):
                base = describe(connection, one.base)
                _guard(connection, one, base)
                if one.leaving == Leaving.FREEZE:
                    frozen.guard(connection, one, base)


def _fits(key: ForeignKey, child: Snapshot, parent: Snapshot) -> bool:
    return set(key.columns) <= set(child.columns) and set(key.parent_columns) <= set(
        parent.columns
    )
