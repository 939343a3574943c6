"""Checks that a table can be in a group, and is the same at all masters."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from groups.errors import CannotReplicate, TablesDiffer
from masters.log import lenses
from masters.log.unloggable import why_unloggable
from sites import QualifiedName
from sites.catalog import SCHEMA
from sites.errors import NoFreeValue
from sites.tables import definitions, locks, subscribed
from sites.tables.table import Column, Table, describe
from sites.transfer.values import printed
from sites.writing.unique_values import parking_column

#: A table that inherits from another one; a partition does not count.
_CHILD = sa.text(
    "SELECT n.nspname, c.relname FROM pg_inherits i"
    " JOIN pg_class p ON p.oid = i.inhparent AND p.relkind = 'r'"
    " JOIN pg_class c ON c.oid = i.inhrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE i.inhparent = :oid ORDER BY 1, 2 LIMIT 1"
)


#: A rule that rewrites statements on a table.
_RULE = sa.text(
    "SELECT rulename::text FROM pg_rewrite WHERE ev_class = :oid ORDER BY 1 LIMIT 1"
)


def carried(table: Table) -> tuple[str, ...]:
    """The columns that travel: each master computes generated ones itself."""
    return tuple(column.name for column in table.columns if not column.generated)


def refuse_unfit(connection: Connection, table: Table) -> None:
    """Make sure that a table can be in a group.

    Raises:
        CannotReplicate: the message names the obstacle.
    """
    _refuse(table, _unfit(table))
    _refuse_unloggable(connection, table)
    _refuse(table, _not_alone(connection, table))
    # Whoever declares a lens looks for groups under the same lock.
    locks.against_writers(connection, QualifiedName(SCHEMA, "lens"))
    _refuse(table, _lens(connection, table))


def _refuse(table: Table, reason: str | None) -> None:
    if reason is not None:
        name = str(table.qualified)
        raise CannotReplicate(f"{name} {reason}.", table=name)


def why_unfit(connection: Connection, table: Table) -> str | None:
    """Why a table cannot be in a group, whose name goes before; None if it can."""
    return _unfit(table) or _not_alone(connection, table) or _lens(connection, table)


def _refuse_unloggable(connection: Connection, table: Table) -> None:
    why = why_unloggable(connection, table)
    if why is not None:
        name = str(table.qualified)
        raise CannotReplicate(f"{name} cannot be recorded: {why}.", table=name)


def refuse_different(
    connections: Mapping[str, Connection], name: QualifiedName, like: str
) -> None:
    """Make sure that a table is the same at all masters, apart from its rows.

    Parameters:
        like: the master that the others are compared with.

    Raises:
        UnknownTable, TablesDiffer, CannotReplicate.
    """
    model = describe(connections[like], name)
    types = definitions.type_definitions(connections[like], model, carried(model))
    for master, connection in connections.items():
        table = describe(connection, name)
        refuse_unfit(connection, table)
        here = definitions.type_definitions(connection, table, carried(table))
        for difference in (
            *_differences(model, table),
            *definitions.differing(types, here),
        ):
            raise TablesDiffer(
                f"{name} at {master} differs from {like}: {difference}.",
                table=str(name),
                master=master,
            )


def refuse_missing(
    connections: Mapping[str, Connection], name: QualifiedName, like: str, master: str
) -> None:
    """Make sure that a table has the columns that another one sends, of their types.

    It also has to keep the rows that it is sent.

    Raises:
        UnknownTable, TablesDiffer, CannotReplicate.
    """
    model = describe(connections[like], name)
    table = describe(connections[master], name)
    _refuse_unloggable(connections[master], table)
    for sent in map(model.column, carried(model)):
        there = next((c for c in table.columns if c.name == sent.name), None)
        if there is None or there.type != sent.type:
            has = "none" if there is None else there.type
            raise TablesDiffer(
                f"{name} at {master} must have a column {sent.name} of type "
                f"{sent.type}; it has {has}.",
                table=str(name),
                master=master,
            )


def refuse_other_rows(
    connections: Mapping[str, Connection], name: QualifiedName
) -> None:
    """Make sure that a table, locked against writers, has the same rows everywhere.

    Raises:
        TablesDiffer: the message says how many rows each master has.
    """
    found = {
        master: connection.execute(checksum(describe(connection, name))).one()
        for master, connection in connections.items()
    }
    if len(set(found.values())) > 1:
        told = ", ".join(f"{one} has {count}" for one, (count, _) in found.items())
        raise TablesDiffer(
            f"The rows of {name} are not the same at all masters: {told}.",
            table=str(name),
        )


def checksum(table: Table) -> sa.Select[int, str]:
    """How many rows a table has, and a checksum of all their values."""
    rows = table.sql()
    values = (printed(rows.c[name]) for name in sorted(carried(table)))
    row = sa.cast(func.row(*values), sa.Text)
    number = sa.cast(func.hashtextextended(row, 0), sa.Numeric)
    return select(func.count(), sa.cast(func.sum(number), sa.Text)).select_from(rows)


def _unfit(table: Table) -> str | None:
    if table.kind not in ("r", "p"):
        return "is not a table"
    if table.schema in (SCHEMA, "pg_catalog", "information_schema"):
        return "is a table of Snaptide or PostgreSQL"
    if not table.key:
        return "has no primary key"
    for column in map(table.column, table.key):
        if not column.pairable:
            return (
                f"has a key column {column.name} whose type {column.type} cannot "
                "identify rows"
            )
    if table.hides_rows:
        return "hides rows from Snaptide's user by row-level security"
    for unique in table.uniques:
        if not set(unique.columns) >= set(table.key):
            try:
                parking_column(table, unique, table.key)
            except NoFreeValue as error:
                return f"has a unique value that could not be swapped ({error.message})"
    return None


def _lens(connection: Connection, table: Table) -> str | None:
    declared = lenses.of_table(connection, table)
    if not declared:
        return None
    gone = declared[0].gone[0].name
    return (
        f"has a lens of {gone}: other masters send its columns as they are. Once no "
        "site shows the old ones, drop it: snaptide shape drop SITE "
        f"{table.qualified} {gone}"
    )


def _not_alone(connection: Connection, table: Table) -> str | None:
    """Why a statement on a table does not change its own rows, and these alone."""
    rule = connection.scalar(_RULE, {"oid": table.oid})
    if rule is not None:
        return (
            f"has a rule {rule} (CREATE RULE), which would also change what a push "
            "writes, at this master alone; make it a trigger"
        )
    sent = subscribed.to(connection, table)
    if sent:
        return (
            f"gets rows by native replication, from subscription {', '.join(sent)}: "
            "such rows fire no triggers that queue them, and the other masters would "
            "not get them"
        )
    child = connection.execute(_CHILD, {"oid": table.oid}).one_or_none()
    if child is None:
        return None
    return (
        f"has a child {QualifiedName(*child)} by inheritance: nothing keeps the keys "
        "of the two apart, and the other masters would have its rows in the table "
        "itself"
    )


def _differences(model: Table, table: Table) -> list[str]:
    """The differences of a master's table, in the user's words."""
    if model.key != table.key:
        return [f"its primary key is {_list(table.key)}, not {_list(model.key)}"]
    ours = {column.name: column for column in table.columns}
    theirs = {column.name: column for column in model.columns}
    found = [f"it has no column {name}" for name in theirs if name not in ours]
    found += [
        f"it has an additional column {name}" for name in ours if name not in theirs
    ]
    return found + [
        f"its column {name} is {_shown(ours[name])}, not {_shown(theirs[name])}"
        for name in theirs
        if name in ours and _shown(ours[name]) != _shown(theirs[name])
    ]


def _list(columns: tuple[str, ...]) -> str:
    return f"({', '.join(columns)})"


def _shown(column: Column) -> str:
    generated = " generated" if column.generated else ""
    null = "" if column.nullable else " NOT NULL"
    collation = f" COLLATE {column.collation}" if column.collation else ""
    return f"{column.type}{collation}{generated}{null}"
