"""Check that both ends of a push have the same shape of a group's tables."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, column, text

from deferred.errors import ColumnRenamed, OtherSchemaVersion
from deferred.queues.queue import Queue
from groups.group import name_of
from masters import group_schema
from masters.group_schema import SchemaVersion
from sites import QualifiedName
from sites.sessions.prepared import as_json


def refuse_other(
    origin: Connection,
    target: Connection,
    here: Mapping[QualifiedName, SchemaVersion],
    seen: Row[*tuple[Any, ...]],
    queues: Sequence[Queue],
    sender: str,
) -> None:
    """Refuse a push if a group's tables have different shapes at its two ends.

    A table that is in a group at one end only is not compared.

    Parameters:
        here: the versions at the origin, as they were just read.
        seen: what the destination has in `group_schema.VERSIONS` and `RENAMED`.

    Raises:
        OtherSchemaVersion: the message says which of the two is behind.
        ColumnRenamed: a column there has another name than the group knows.
    """
    shared = [queue for queue in queues if queue.group_id is not None]
    if not shared:
        return
    there = group_schema.of(seen.versions)
    for queue in shared:
        if queue.base not in here or queue.target not in there:
            continue
        ours, theirs = here[queue.base].version, there[queue.target].version
        if ours != theirs:
            behind = queue.destination if theirs < ours else sender
            name = name_of(origin, here[queue.base].group_id)
            raise OtherSchemaVersion(
                f"{behind} is behind: {queue.target} of group {name} has schema version"
                f" {ours} at {sender} and {theirs} at {queue.destination}.",
                group=name,
                table=str(queue.target),
                behind=behind,
            )
    _refuse_renamed(target, seen.renamed or (), shared)


_OF_RENAMED = ("base_schema", "base_table", "group_id", "name", "called")

#: Columns of tables in groups that no longer have the names by which the queue knows
#: them. Another column may have taken such a name, and would get the wrong values. For
#: statements that read more.
RENAMED = as_json(
    text(
        """
        SELECT q.base_schema, q.base_table, q.group_id, c.name,
               a.attname::text AS called
        FROM snaptide.queue q
        CROSS JOIN LATERAL unnest(q.columns, q.column_numbers) AS c (name, number)
        JOIN pg_namespace n ON n.nspname = q.base_schema
        JOIN pg_class t ON t.relnamespace = n.oid AND t.relname = q.base_table
        LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.number
             AND NOT a.attisdropped
        WHERE q.group_id IS NOT NULL AND a.attname IS DISTINCT FROM c.name
        ORDER BY 1, 2, c.number
        """
    ).columns(*map(column, _OF_RENAMED)),
    "renamed",
)


def _refuse_renamed(
    target: Connection, found: Sequence[Mapping[str, str]], queues: Sequence[Queue]
) -> None:
    wanted = {queue.target: queue for queue in queues}
    for row in found:
        table = QualifiedName(row["base_schema"], row["base_table"])
        if table in wanted:
            queue, name, called = wanted[table], row["name"], row["called"]
            now = (
                f"that column is now called {called}"
                if called
                else "that column was dropped"
            )
            group = name_of(target, uuid.UUID(row["group_id"]))
            raise ColumnRenamed(
                f"Column {name} of {table} at {queue.destination} is not the "
                f"column of group {group}: {now}.",
                table=str(table),
                column=name,
            )
