"""What altering the columns of a snapshot comes to, before anything is locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from deferred.parked import withdrawn
from deferred.queues.queue import find_queue
from masters.numbers import columns as numbered_columns
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import columns as table_columns
from sites.tables.table import Column, Table, describe
from snapshots.creating import alter, base_table, columns_asked, columns_widened
from snapshots.creating.alter import Condition
from snapshots.creating.columns_asked import Asked, refused
from snapshots.definitions import old_columns, refresh_group, rewrites, unaltered
from snapshots.definitions.definition import Definition, define
from snapshots.definitions.errors import UnknownColumn
from snapshots.definitions.snapshot import Snapshot
from snapshots.definitions.unaltered import Before


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be altered, as the master allows it."""

    wanted: Asked
    master: Site
    definition: Definition
    group: Before
    before: Snapshot
    now: Snapshot
    #: this and other snapshots of the group that get another condition
    conditions: tuple[Snapshot, ...]
    #: what these need to know of the master, see `alter.copied_keys`
    copied: alter.CopiedKeys
    #: columns that the master has dropped already
    gone: frozenset[str]
    #: by new column, the value that rows which are there get; None for NULL
    filled: Mapping[str, str | None]
    #: by name, columns of the master that the snapshot's get the types of
    widened: Mapping[str, Column]

    @property
    def empties_queue(self) -> bool:
        """Whether all that waits has to be pushed first."""
        others = {*self.wanted.add, *self.wanted.drop} - self.gone
        return self.before.updatable and bool(others)


def planned(
    connection: Connection,
    site: Site,
    one: Snapshot,
    wanted: Asked,
    condition: Condition | None,
    followed: Sequence[str] | None,
) -> Plan:
    """Check what is wanted against the master, and against the rest of the group.

    Parameters:
        followed: DDL that the columns follow with that, by id; None for all that the
            master has, because an operator says what the columns are to be.
    """
    _refuse_now(connection, one, wanted)
    group = unaltered.read(connection, one.refresh_group)
    master, members = site.peer(group.head.master), group.members
    now = replace(one, columns=wanted.of(one.columns))
    altered: dict[str, Snapshot] = {}
    if condition is None:
        columns_asked.refuse_former_names(master, one, members, wanted)
    else:
        others = [member for member in members if member.key != one.key]
        altered = alter.with_followers(master, now, condition, [*others, now])
        now = altered[one.key]
    definition = _defined(connection, master, one, now, wanted)
    known = rewrites.numbers(connection, one, definition.table)
    columns_asked.refuse_others(one, definition.table, wanted, known)
    columns_asked.refuse_unfit(one, definition, wanted)
    done = definition.ddl if followed is None else followed
    return Plan(
        wanted=wanted,
        master=master,
        definition=definition,
        group=group,
        before=one,
        now=replace(
            now,
            master_columns=_states(one, wanted, definition.table),
            ddl_followed=tuple(dict.fromkeys([*one.ddl_followed, *done])),
        ),
        conditions=tuple(altered.values()),
        # Asked before users are locked out.
        copied=alter.copied_keys(master, members) if altered else {},
        gone=columns_asked.gone(definition.table, wanted, known),
        filled={name: _constant(connection, definition, name) for name in wanted.add},
        widened=columns_widened.planned(
            connection, one, wanted, definition.table, find_queue(connection, one.key)
        ),
    )


def _defined(
    connection: Connection, master: Site, one: Snapshot, now: Snapshot, wanted: Asked
) -> Definition:
    """What the master makes of the columns that the snapshot is to have.

    Those that a lens of the master makes are left out: they are not in its table, and
    stay as they are.
    """
    made = _made(connection, master, one, wanted)
    try:
        return define(
            master,
            one.master,
            columns=[name for name in now.columns if name not in made],
            condition=now.condition,
            updatable=one.updatable,
            partner=True,
        )
    except UnknownColumn as unknown:
        name = unknown.facts["column"]
        if name not in one.columns:
            raise
        raise refused(
            one,
            f"the master has renamed or dropped {name}; rename or drop it here by the "
            "same command",
        ) from None


def _made(
    connection: Connection, master: Site, one: Snapshot, wanted: Asked
) -> frozenset[str]:
    """The columns that lenses of the master make for what the snapshot is to show."""
    with master.session() as there:
        identity.confirm(there, master.name, partner=True)
        table = describe(there, one.master)
        known = rewrites.numbers(connection, one, table) or {}
        shown = {
            wanted.rename.get(name, name): number
            for name, number in known.items()
            if name not in wanted.drop
        }
        new = {column.name: column.number for column in table.columns}
        shown |= {name: new[name] for name in wanted.add if name in new}
        found = old_columns.made_for(there, table, shown)
        there.rollback()
    return found


def _refuse_now(connection: Connection, one: Snapshot, wanted: Asked) -> None:
    """Refuse to alter a snapshot whose site has something in the way."""
    if one.updatable and refresh_group.is_synchronous(connection, one.refresh_group):
        raise refused(
            one, "its group is synchronous; make it asynchronous for that time"
        )
    if withdrawn.has_calls_of(connection, one.qualified):
        raise refused(
            one,
            "withdrawn changes of it stand in the site's error queue; put them back "
            "or delete them first",
        )
    columns_asked.refuse_numbered(
        one, numbered_columns.all_of(connection, snapshot=one.key), wanted
    )


def _states(one: Snapshot, wanted: Asked, table: Table) -> tuple[str, ...] | None:
    """What the next refresh takes for the state of the columns at the last one."""
    before = rewrites.columns_before(one)
    if before is None:
        return None
    known = {
        wanted.rename.get(name, name): state
        for name, state in before.items()
        if name not in wanted.drop
    }
    known |= {name: table.column(name).state for name in wanted.add}
    return tuple(known[name] for name in wanted.of(one.columns))


def _constant(connection: Connection, definition: Definition, name: str) -> str | None:
    """The default of a new column, unless PostgreSQL had to write all rows for it."""
    default = base_table.default_of(definition.table.column(name), definition)
    if default is None or name in definition.numbers:
        return None
    return default if table_columns.is_immutable(connection, default) else None
