"""The part of replication groups in a push: it fills `deferred.batches.relay`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Insert, Row, column, func, select, text

from deferred.batches.batch import Batch, QueuedTransaction
from deferred.batches.provenance import Sender
from deferred.batches.relay import Before, Relay, Terms
from deferred.catalog import queue as queue_catalog
from deferred.catalog import route
from deferred.errors import ColumnRenamed, OtherSchemaVersion
from deferred.queues.queue import Queue
from groups.group import find_by_id, name_of
from groups.relay import (
    arrivals,
    duplicate_watch,
    duplicates,
    former_senders,
    holds,
    settled,
)
from masters import group_schema
from masters.group_schema import SchemaVersion
from sites import QualifiedName
from sites.sessions.prepared import Prepared, as_json
from sites.sessions.site import autocommit

#: What an origin is asked before it ships a batch.
_BEFORE = Prepared(select(duplicate_watch.WATCHES, group_schema.VERSIONS))

_there = queue_catalog.c

#: The tables whose changes a master sends on, and the source masters. The queue of a
#: table there records applied changes, as it records the writes of users; for the
#: master at which a transaction began, the routes of the table say where it goes next.
_SENT_ON = as_json(
    select(
        _there.base_schema,
        _there.base_table,
        _there.group_id,
        func.array_agg(route.c.source).label("sources"),
    )
    .join(route, route.c.queue_id == _there.id)
    .where(_there.group_id.is_not(None))
    .group_by(_there.id),
    "sent_on",
)

_OF_RENAMED = ("base_schema", "base_table", "group_id", "name", "called")

#: Columns of tables in groups that no longer have the names by which the queue knows
#: them. Another column may have taken such a name, and would get the wrong values. For
#: statements that read more.
_RENAMED = as_json(
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


class PushRelay(Relay):
    """What several masters add to a push; see the base class for each method."""

    ADMITTING = (
        group_schema.VERSIONS,
        _RENAMED,
        former_senders.FORGOTTEN,
        _SENT_ON,
        holds.QUIET,
    )

    admit = staticmethod(duplicates.drop_already_applied)
    refuse_gap = staticmethod(settled.refuse_gap)

    def restored(
        self, origin: Connection, target: Connection, sender_id: uuid.UUID, name: str
    ) -> None:
        duplicate_watch.watch_restored(origin, target, sender_id, name)
        settled.reopen(origin, target, name)

    def before_batch(self, origin: Connection, target: Connection) -> Before:
        with autocommit(origin):
            seen = _BEFORE.run(origin).one()
        watches = duplicate_watch.of(seen.watches)
        if watches:
            duplicate_watch.watch_for(target, watches)
        return Before(may_watch=bool(watches), versions=group_schema.of(seen.versions))

    def admit_batch(
        self,
        origin: Connection,
        target: Connection,
        batch: Batch,
        queues: Sequence[Queue],
        sender: Sender,
        watch_version: int,
        before: Before,
        answered: Callable[[], Row[Any]],
    ) -> Terms:
        seen = answered()
        _refuse_other_shapes(origin, target, before.versions, seen, queues, sender.name)
        groups = sender.groups.values()
        former_senders.refuse(target, seen.forgotten, groups, sender.name)
        sent_on = seen.sent_on or ()
        return Terms(
            alone=_going_on(sent_on, queues, sender.name) | holds.tables(seen.quiet),
            sends_on=bool(sent_on),
            may_hold_duplicates=bool(watch_version)
            and duplicate_watch.is_in(origin, target, batch, sender.name),
        )

    def hold(self, target: Connection, tables: Collection[QualifiedName]) -> str | None:
        held = holds.of_tables(target, tables)
        return " ".join(map(holds.message, held)) or None

    def applied(
        self,
        sender: Sender,
        transaction: QueuedTransaction,
        tables: Collection[QualifiedName],
    ) -> Insert | None:
        known = {sender.groups[table] for table in tables if table in sender.groups}
        began = sender.sources(transaction, known)
        arrived = {(group, began[str(group)]): 1 for group in known}
        return arrivals.counting(sender.name, arrived)

    def applied_together(
        self,
        origin: Connection,
        target: Connection,
        batch: Batch,
        queues: Sequence[Queue],
        sender: Sender,
        part: tuple[int, int],
    ) -> None:
        arrived = arrivals.of_part(origin, batch, queues, sender.name, part)
        counting = arrivals.counting(sender.name, arrived)
        if counting is not None:
            target.execute(counting)

    def masters(self, target: Connection, group_id: uuid.UUID) -> int:
        group = find_by_id(target, group_id)
        return 1 if group is None else len(group.writing)

    def parked(
        self,
        target: Connection,
        sender: Sender,
        tables: Collection[QualifiedName],
        why: str,
    ) -> None:
        wanted = holds.groups(target, tables)
        holds.begin(target, wanted, why, by=f"the push of {sender.name}")


def _going_on(
    there: Sequence[Mapping[str, Any]], queues: Sequence[Queue], sender: str
) -> frozenset[QualifiedName]:
    """The tables for which a destination sends on the changes that this site brings.

    A transaction that touches one of them is applied in a transaction of its own, so
    that the next destination gets it as it was made.

    Parameters:
        there: what the destination has in `_SENT_ON`.
    """
    return frozenset(
        queue.target
        for queue in queues
        for row in there
        if queue.target == QualifiedName(row["base_schema"], row["base_table"])
        and not _brought(queue, row["group_id"], sender).isdisjoint(row["sources"])
    )


def _brought(queue: Queue, group: str, sender: str) -> set[str]:
    """The masters whose changes come through a queue, as the destination names them."""
    if str(queue.group_id) != group:
        return {""}  # they begin there
    return {source or sender for source in queue.sources}


RELAY = PushRelay()


def _refuse_other_shapes(
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
        seen: what the destination has in `group_schema.VERSIONS` and `_RENAMED`.

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
