"""Checks for tables that were altered after Snaptide began to record them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import Connection, Row, select

from deferred.queues.queue import Queue, list_queues
from groups.group import name_of
from masters.catalog import snapshot_log
from masters.log import log_function, partition, ring
from masters.log.unloggable import why_unloggable, why_unnoticed
from sites import QualifiedName
from sites.catalog import SCHEMA
from sites.names import numbered
from sites.tables.table import Column, Table, find_table
from sites.transfer.values import unsized
from snaptide.doctor import moved_tables
from snaptide.doctor.finding import Finding, error, warning

#: The consequence of an altered column: of a snapshot log, and of a queue.
_GOES_ON = "users can still write, but no refresh can follow their changes"
_STOPS = (
    "if it was renamed, writes and pushes go on, but refreshes stop; otherwise every "
    "write to the table fails"
)


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about columns that were dropped, renamed, replaced or retyped."""
    logs = connection.execute(
        select(snapshot_log).order_by("table_schema", "table_name")
    )
    recorded = dict[QualifiedName, Table]()
    for log in logs:
        name = QualifiedName(log.table_schema, log.table_name)
        table, function = find_table(connection, name), log.log_table
        moved = None if table else moved_tables.find(connection, site, name, function)
        if moved is not None:
            yield moved
            continue
        for what in _of_log(connection, table, log):
            yield error(
                site,
                str(name),
                what,
                f"snaptide log drop {site} {name} --force, "
                f"then snaptide log create {site} {name}, then refresh "
                "its snapshots completely",
            )
        if table is not None:
            yield from _of_partition(connection, site, table, function)
            recorded[name] = table
    for queue in list_queues(connection):
        name, function = queue.base, queue.queue_table
        table = find_table(connection, name)
        moved = None if table else moved_tables.find(connection, site, name, function)
        if moved is not None:
            yield moved
            continue
        for what in _of_queue(connection, table, queue):
            yield error(
                site,
                str(name),
                what,
                f"Give the column its old name (ALTER TABLE {name} RENAME), or push, "
                f"then {_made_anew(connection, queue)}",
            )
        if table is not None and queue.group_id is not None:
            recorded[name] = table
    for _, table in sorted(recorded.items()):
        yield from _of_kind(connection, site, table)


def _of_kind(connection: Connection, site: str, table: Table) -> Iterator[Finding]:
    if reason := why_unloggable(connection, table):
        todo = (
            "ALTER TABLE ... SET LOGGED; or take the parts from each other (DETACH "
            "PARTITION, NO INHERIT), and create snapshots of each from its own master; "
            "or give the column a deterministic collation"
        )
        yield error(site, str(table.qualified), f"{reason}.", todo)


def _made_anew(connection: Connection, queue: Queue) -> str:
    if queue.group_id is None:
        return f"drop snapshot {queue.snapshot} and create it again"
    return (
        f"take the table out of group {name_of(connection, queue.group_id)}, make it "
        "alike at all masters, and add it again"
    )


def _of_log(
    connection: Connection, table: Table | None, log: Row[object]
) -> Iterator[str]:
    if table is None:
        yield "The table was dropped, but its snapshot log still exists."
        return
    keys = dict(
        zip(log.identity_columns, numbered("k", log.identity_columns), strict=True)
    )
    recorded = find_table(connection, QualifiedName(SCHEMA, log.log_table))
    changed = list(_changed(table, recorded, keys, ring.key_type, _GOES_ON))
    yield from changed
    if not (changed or table.tells_apart(log.identity_columns)):
        yield f"No key over {', '.join(log.identity_columns)} identifies its rows."
    if table.hides_rows:
        yield "Row-level security hides its rows from Snaptide's user: refreshes stop."


def _of_partition(
    connection: Connection, site: str, table: Table, log: str
) -> Iterator[Finding]:
    """Partition columns that were altered, so that no values of them are recorded."""
    declared = partition.of_log(connection, log)
    if log_function.known(connection, table, log) == declared:
        return
    name, left = table.qualified, ",".join(c for c in declared if c in table.names)
    yield warning(
        site,
        str(name),
        f"Of the partition columns {', '.join(declared)} one is gone, or of another "
        "type or collation: no values are recorded, and each refresh reads all changed "
        "keys.",
        f'snaptide log alter {site} {name} --partition-columns "{left}"',
    )


def _of_queue(
    connection: Connection, table: Table | None, queue: Queue
) -> Iterator[str]:
    if table is None:
        yield f"The table whose changes were queued as {queue.snapshot} was dropped."
        return
    for name_then, number in zip(queue.columns, queue.column_numbers, strict=True):
        if name_then in table.names and table.column(name_then).number != number:
            yield (
                f"Column {name_then} is not the column that is queued: {_STOPS}; "
                "changes from other sites wait."
            )
    if queue.group_id is None and (reason := why_unnoticed(connection, table)):
        yield f"{reason}."
    recorded = find_table(connection, QualifiedName(SCHEMA, queue.queue_table))
    images = dict(zip(queue.columns, numbered("n", queue.columns), strict=True))
    yield from _changed(table, recorded, images, lambda column: column.recorded, _STOPS)


def _changed(
    table: Table,
    recorded: Table | None,
    into: dict[str, str],
    type_of: Callable[[Column], str],
    consequence: str,
) -> Iterator[str]:
    """Columns that are gone, or that would be recorded as another type today."""
    if recorded is None:
        yield "The table that records its changes was dropped: every write to it fails."
        return
    for name, place in into.items():
        if name not in table.names:
            yield f"Column {name} is gone or renamed: {consequence}."
        elif place in recorded.names:
            before, column = recorded.column(place).type, table.column(name)
            # Images have types without a length, so that every value fits.
            if unsized(before) != unsized(type_of(column)):
                yield f"Column {name} was {before} and is {column.type}: {consequence}."
