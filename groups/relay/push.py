"""The part of replication groups in a push: it fills `deferred.batches.relay`."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Insert, Row, select

from deferred.batches import provenance
from deferred.batches.batch import Batch, QueuedTransaction
from deferred.batches.relay import Before, Relay, Terms
from deferred.batches.sender import Sender
from deferred.queues.queue import Queue
from groups.group import find_by_id
from groups.relay import (
    arrivals,
    duplicate_watch,
    duplicates,
    former_senders,
    forwarding,
    holds,
    schema_version,
    settled,
)
from masters import group_schema
from sites import QualifiedName
from sites.sessions.prepared import planned_once
from sites.sessions.site import autocommit

#: What an origin is asked before it ships a batch.
_BEFORE = planned_once(select(duplicate_watch.WATCHES, group_schema.VERSIONS))


class PushRelay(Relay):
    """What several masters add to a push; see the base class for each method."""

    ADMITTING = (
        group_schema.VERSIONS,
        schema_version.RENAMED,
        former_senders.FORGOTTEN,
        forwarding.SENT_ON,
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
            seen = origin.execute(_BEFORE).one()
        watches = duplicate_watch.of(seen.watches)
        if watches:
            duplicate_watch.watch_for(target, watches)
        return Before(
            marker_moved=bool(watches), versions=group_schema.of(seen.versions)
        )

    def admit_batch(
        self,
        origin: Connection,
        target: Connection,
        batch: Batch,
        queues: Sequence[Queue],
        sender: Sender,
        watch_version: int,
        before: Before,
        seen: Row[Any],
    ) -> Terms:
        schema_version.refuse_other(
            origin, target, before.versions, seen, queues, sender.name
        )
        groups = sender.groups.values()
        former_senders.refuse(target, seen.forgotten, groups, sender.name)
        sent_on = seen.sent_on or ()
        return Terms(
            alone=forwarding.going_on(sent_on, queues, sender.name)
            | holds.tables(seen.quiet),
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
        began = provenance.sources(transaction, sender.name, known)
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


RELAY = PushRelay()
