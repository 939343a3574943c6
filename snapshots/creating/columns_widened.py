"""Which columns of a snapshot can get the wider types that the master has.

PostgreSQL makes a text longer without a look at the rows, but writes all of them anew
for another kind of integer, while nobody can read the table. That is done only where it
takes no longer than users wait for other columns.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from deferred.queues.queue import Queue
from sites.catalog import SCHEMA
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.tables import columns, lossy, references
from sites.tables.table import Column, Table, describe
from snapshots.creating.columns_asked import Asked, refused
from snapshots.definitions.snapshot import Snapshot

#: Tables of up to so many bytes, with their indexes, are written anew in about a tenth
#: of a second.
SMALL = 8 * 1024 * 1024


def planned(
    connection: Connection,
    one: Snapshot,
    wanted: Asked,
    table: Table,
    queue: Queue | None,
) -> dict[str, Column]:
    """The columns to widen, by name, as the master has them.

    Parameters:
        table: the master table.

    Raises:
        ColumnsRefused: the message says why.
    """
    if not wanted.widen:
        return {}
    base = describe(connection, one.base)
    formerly = {new: old for old, new in wanted.rename.items()}
    found = {}
    for name in wanted.widen:
        here, there = base.column(formerly.get(name, name)), table.column(name)
        if why := why_not(connection, one, base, here, there, queue):
            raise refused(one, f"column {name} {why}")
        found[name] = there
    return found


def why_not(
    connection: Connection,
    one: Snapshot,
    base: Table,
    here: Column,
    there: Column,
    queue: Queue | None,
) -> str | None:
    """Why a column cannot get the master's type; None if it can.

    Parameters:
        here, there: the column of the base table, and the master's.
    """
    if here.type == there.type:
        return f"is {there.type} at the master, too"
    if here.generated:
        return "is computed at the site"
    if there.collation != here.collation:
        return f"has another collation at the master; {_INSTEAD}"
    is_domain = any(side.type != side.recorded for side in (here, there))
    if is_domain or not lossy.widens(there.recorded, here.recorded):
        return (
            f"is {there.type} at the master, which is no wider kind of {here.type}; "
            f"{_INSTEAD}"
        )
    if not columns.is_written_anew(connection, here.type, there.type):
        return None
    if here.name in references.referred(connection, base):
        return "is referred to by other tables, whose rows would have to be looked at"
    tables = [one.base]
    if queue is not None:
        tables.append(QualifiedName(SCHEMA, queue.queue_table))
    size = sum(_size(connection, each) for each in tables)
    if size <= SMALL:
        return None
    return (
        f"would keep users waiting while PostgreSQL writes {size >> 20} MB anew; "
        f"{_INSTEAD}"
    )


_INSTEAD = "drop it and add it again (--drop-column, --add-column)"


def _size(connection: Connection, table: QualifiedName) -> int:
    name = identifier(table).as_string(raw(connection))
    found = text("SELECT pg_total_relation_size(to_regclass(:name))")
    return connection.scalar(found, {"name": name}) or 0
