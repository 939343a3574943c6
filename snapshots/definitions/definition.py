"""Checks the definition of a new snapshot against its master table."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from masters.errors import NoSnapshotLog
from masters.log import site_ddl
from masters.log.catalog import find_log
from masters.log.unloggable import why_unloggable
from masters.numbers.columns import Method
from sites.conditions.where import Condition
from sites.errors import NoFreeValue
from sites.names import QualifiedName
from sites.sessions import identity
from sites.sessions.identity import Identity
from sites.sessions.site import Site
from sites.tables import ddl, indexes, instead
from sites.tables.ddl import DefaultNeeds
from sites.tables.definitions import UNREADABLE, Definitions, type_definitions
from sites.tables.indexes import Index
from sites.tables.table import Column, Table, Unique, describe
from sites.writing.unique_values import parking_column
from snapshots.definitions import granted
from snapshots.definitions import left_out as not_taken
from snapshots.definitions.errors import (
    CannotPark,
    ColumnsLeftOut,
    HiddenRows,
    IdentityLeftOut,
    KeyGenerated,
    NotByKey,
    SnapshotRefused,
    TooWide,
    UnknownColumn,
    UnreadableType,
    UnusableTable,
)
from snapshots.definitions.numbered import NOTHING, Numbered, numbered

#: PostgreSQL allows 1,664 columns in a result: a conflict shows the old, the new and
#: the current value of each, and whether its column group is in conflict.
MOST_COLUMNS = 400
#: PostgreSQL allows 1,600 in a table, and work tables have some of their own.
MOST_READ_ONLY = 1590


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A checked definition: everything the site has to know of the master."""

    master_id: uuid.UUID
    with_rowid: bool
    table: Table
    columns: tuple[str, ...]
    identity: tuple[str, ...]
    condition: str | None
    indexes: tuple[Index, ...]
    needs: dict[int, DefaultNeeds]
    #: definitions of the columns' types; the site needs the same ones
    types: Definitions
    #: how columns get a value that an insert at the site does not give
    numbers: Mapping[str, Method]
    #: DDL for sites that the table has gone through (`masters.log.site_ddl`)
    ddl: tuple[str, ...]
    #: parts of the table that are not taken over, each with the reason
    left_out: tuple[str, ...]

    @property
    def partial(self) -> bool:
        """The master table has columns that the snapshot does not carry."""
        return any(
            c.name not in self.columns and not c.generated for c in self.table.columns
        )

    def is_generated(self, column: Column) -> bool:
        """Whether the site can compute a stored generated column by itself.

        Identity columns come from the master even so: rows are found by them.
        """
        needs = self.needs.get(column.number)
        return (
            column.generated == "s"
            and column.name not in self.identity
            and needs is not None
            and not needs.foreign
            and set(needs.inputs) <= set(self.columns)
        )

    def uniques(self) -> list[Unique]:
        """Unique keys of the master whose columns are all included."""
        return [u for u in self.table.uniques if set(u.columns) <= set(self.columns)]


def define(
    master: Site,
    table: QualifiedName,
    *,
    columns: Sequence[str] | None,
    condition: str | None,
    updatable: bool,
    numbers: Mapping[str, str] | None = None,
    exists: bool = False,
    partner: bool = False,
) -> Definition:
    """Read the master table, and check that such a snapshot of it is possible.

    Parameters:
        numbers: by column, how it gets a value that an insert does not give.
        exists: the snapshot is there, and its condition was checked when it was made.
        partner: the schema of the master may be older, as for `identity.read`.

    Raises:
        UnknownTable, NoSnapshotLog, BadCondition: the master refuses.
        SnapshotRefused: the subclass and the message name the obstacle.
    """
    with master.session() as connection:
        who = identity.confirm(connection, master.name, partner=partner)
        made = _read(
            connection,
            who,
            table,
            columns,
            condition,
            updatable,
            numbers or {},
            exists,
        )
        connection.rollback()
    _refuse_wide(made, updatable)
    _refuse_generated_key(made, updatable)
    _refuse_unfillable(made, updatable)
    _refuse_unparkable(made)
    if updatable and made.table.instead is not None:
        raise UnusableTable(
            f"{instead.message(table, made.table.instead)}.", table=str(table)
        )
    return made


def _read(
    connection: Connection,
    who: Identity,
    name: QualifiedName,
    columns: Sequence[str] | None,
    condition: str | None,
    updatable: bool,
    numbers: Mapping[str, str],
    exists: bool,
) -> Definition:
    # What comes after it is followed, even if the table has it already.
    gone_through = site_ddl.known(connection, name)
    table = describe(connection, name)
    _refuse_unusable(table)
    log = find_log(connection, name)
    if log is None:
        raise NoSnapshotLog(f"Table {name} has no snapshot log.", table=str(name))
    reason = why_unloggable(connection, table)
    if reason is not None:
        raise UnusableTable(f"{reason}.", table=str(name))
    needs = ddl.default_needs(connection, table)
    drawn = numbered(connection, table, columns, numbers, updatable)
    chosen, left_out = choose(table, columns, needs, updatable, drawn)
    granted.refuse_beyond(connection, table, chosen, updatable=updatable)
    _require(
        table, chosen, log.identity_columns, IdentityLeftOut, "they identify a row"
    )
    kept = None if exists else granted.checked(connection, table, condition)
    if kept is not None:
        own = kept.columns.get(name, ())
        _require(table, chosen, own, SnapshotRefused, "the condition uses them")
        _require_parents(connection, kept)
    types = type_definitions(connection, table, chosen)
    _refuse_unreadable(table, types)
    found = indexes.secondary(connection, table)
    return Definition(
        master_id=who.site_id,
        with_rowid=log.with_rowid,
        table=table,
        columns=chosen,
        identity=tuple(log.identity_columns),
        condition=None if kept is None else kept.text,
        indexes=tuple(i for i in found if _is_copied(i, chosen)),
        needs=needs,
        types=types,
        numbers=drawn.methods,
        ddl=tuple(gone_through),
        left_out=(
            *left_out,
            *not_taken.of_keys(table, chosen, found),
            *not_taken.of_table(connection, table),
        ),
    )


def choose(
    table: Table,
    columns: Sequence[str] | None,
    needs: dict[int, DefaultNeeds],
    updatable: bool,
    drawn: Numbered = NOTHING,
) -> tuple[tuple[str, ...], list[str]]:
    """The columns of a snapshot, and why it lacks others and their defaults.

    Parameters:
        columns: those that are asked for; None for all.
        drawn: the columns that draw numbers at the site.

    Raises:
        UnknownColumn: the table has no column of such a name.
    """
    for name in columns or ():
        if name not in table.names:
            raise UnknownColumn(
                f"{table.qualified} has no column {name!r}.", column=name
            )
    wanted = [c for c in table.columns if columns is None or c.name in columns]
    names = {c.name for c in wanted}
    chosen, left_out = [], []
    for column in wanted:
        reason = _why_not(column, needs.get(column.number), names, updatable)
        if reason:
            left_out.append(f"column {column.name}: {reason}")
        else:
            chosen.append(column.name)
            left_out.extend(_lost_default(column, needs.get(column.number), drawn))
    return tuple(chosen), left_out


def _why_not(
    column: Column, needs: DefaultNeeds | None, names: set[str], updatable: bool
) -> str:
    """Why a column cannot be in the snapshot; empty if it can."""
    if column.generated == "v":
        return "it is generated when it is read, and not stored"
    if column.generated != "s" or not updatable or needs is None:
        return ""
    if needs.foreign or not set(needs.inputs) <= names:
        return "it is generated from data that the site does not have"
    return ""


def _lost_default(
    column: Column, needs: DefaultNeeds | None, drawn: Numbered
) -> list[str]:
    name = f"default of {column.name}"
    if column.name in drawn.methods:
        return []
    if why := drawn.refused.get(column.name):
        return [f"{name}: {why}; until then an insert at the site must give a value"]
    if column.identity:
        return [
            f"{name}: the master draws the numbers; an insert at the site must give one"
        ]
    if not column.generated and needs is not None and needs.foreign:
        lacks = f"{column.default} needs more than the site has"
        return [f"{name}: {lacks}; an insert at the site must give a value"]
    return []


def _require(
    table: Table,
    chosen: Sequence[str],
    needed: Sequence[str],
    error: type[SnapshotRefused],
    why: str,
) -> None:
    missing = [name for name in needed if name not in chosen]
    if missing:
        raise error(
            f"The snapshot of {table.qualified} must include {', '.join(missing)}: "
            f"{why}.",
            columns=missing,
        )


def _require_parents(connection: Connection, condition: Condition) -> None:
    """Make sure that the rows that a condition looks for can be followed by their logs.

    Raises:
        UnusableTable, HiddenRows, NoSnapshotLog, NotByKey.
    """
    for one in condition.parts.every():
        _refuse_unusable(describe(connection, one.table))
        log = find_log(connection, one.table)
        if log is None:
            raise NoSnapshotLog(
                f"Table {one.table}, which the condition asks, has no snapshot log.",
                table=str(one.table),
            )
        if {*one.key} != {*log.identity_columns}:
            raise NotByKey(
                f"The condition finds rows of {one.table} by {', '.join(one.key)}; the "
                f"key is {', '.join(log.identity_columns)}.",
                table=str(one.table),
                columns=[*one.key],
            )


def _refuse_unusable(table: Table) -> None:
    name = table.qualified
    if table.kind not in ("r", "p"):
        raise UnusableTable(f"{name} is not a table.", table=str(name))
    if table.hides_rows:
        raise HiddenRows(
            f"Row-level security hides rows of {name} from Snaptide's user.",
            table=str(name),
        )


def _is_copied(index: Index, chosen: Sequence[str]) -> bool:
    return not index.special and set(index.columns) <= set(chosen)


def _refuse_generated_key(made: Definition, updatable: bool) -> None:
    keys = [name for name in made.identity if made.table.column(name).generated]
    if updatable and keys:
        raise KeyGenerated(
            f"Rows of {made.table.qualified} are identified by {', '.join(keys)}, "
            "which the master generates.",
            columns=keys,
        )


def _refuse_unfillable(made: Definition, updatable: bool) -> None:
    missing = [
        c.name
        for c in made.table.columns
        if c.name not in made.columns
        and not (c.nullable or c.default is not None or c.identity or c.generated)
    ]
    if updatable and missing:
        raise ColumnsLeftOut(
            f"An updatable snapshot of {made.table.qualified} cannot leave out "
            f"{', '.join(missing)}: NOT NULL without a default.",
            columns=missing,
        )


def _refuse_unreadable(table: Table, types: Definitions) -> None:
    for name in sorted(types.keys() & set(UNREADABLE)):
        raise UnreadableType(
            f"{table.qualified} has values of type {name}, which PostgreSQL can print "
            "but not read.",
            type=name,
        )


def _refuse_wide(made: Definition, updatable: bool) -> None:
    most = MOST_COLUMNS if updatable else MOST_READ_ONLY
    if len(made.columns) > most:
        raise TooWide(
            f"{made.table.qualified} has {len(made.columns)} columns for the "
            f"snapshot: at most {most} can be {'queued' if updatable else 'merged'}.",
            columns=len(made.columns),
        )


def _refuse_unparkable(made: Definition) -> None:
    for unique in made.uniques():
        if set(unique.columns) >= set(made.identity):
            continue
        try:
            parking_column(made.table, unique, made.identity)
        except NoFreeValue as error:
            raise CannotPark(error.message, unique=unique.name) from None
