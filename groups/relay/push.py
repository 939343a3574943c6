"""The part of replication groups in a push: it fills `deferred.batches.relay`."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from deferred.batches import provenance
from deferred.batches.batch import Batch, QueuedTransaction
from deferred.batches.relay import Relay, Terms
from deferred.batches.sender import Sender
from deferred.queues.queue import Queue
from groups.relay import (
    arrivals,
    duplicate_watch,
    duplicates,
    former_senders,
    forwarding,
    holds,
    schema_version,
)
from sites import QualifiedName
from sites.staged import Staged


class PushRelay:
    """What several masters add to a push; see the protocol for each method."""

    def before_batch(self, origin: Connection, target: Connection) -> bool:
        return duplicate_watch.pass_on(origin, target)

    def admit_batch(
        self,
        origin: Connection,
        target: Connection,
        batch: Batch,
        queues: Sequence[Queue],
        sender: Sender,
        watch_version: int,
    ) -> Terms:
        schema_version.refuse_other(origin, target, queues, sender.name)
        former_senders.refuse(target, sender.groups.values(), sender.name)
        sent_on = forwarding.tables_sent_on(target)
        return Terms(
            alone=forwarding.going_on(sent_on, queues, sender.name)
            | holds.tables(target),
            sends_on=bool(sent_on),
            may_hold_duplicates=bool(watch_version)
            and duplicate_watch.is_in(origin, target, batch, sender.name),
        )

    def admit(
        self,
        target: Connection,
        sender: Sender,
        transaction: QueuedTransaction,
        staged: Sequence[Staged],
    ) -> bool:
        return duplicates.drop_already_applied(target, sender, transaction, staged)

    def hold(self, target: Connection, tables: Collection[QualifiedName]) -> str | None:
        held = holds.of_tables(target, tables)
        return " ".join(map(holds.message, held)) or None

    def applied(
        self,
        target: Connection,
        sender: Sender,
        transaction: QueuedTransaction,
        tables: Collection[QualifiedName],
    ) -> None:
        names = {sender.groups[table] for table in tables if table in sender.groups}
        began = provenance.sources(transaction, sender.name, names)
        arrivals.count(target, sender.name, {(name, began[name]): 1 for name in names})

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
        arrivals.count(target, sender.name, arrived)

    def parked(
        self,
        target: Connection,
        sender: Sender,
        tables: Collection[QualifiedName],
        why: str,
    ) -> None:
        wanted = holds.groups(target, tables)
        holds.begin(target, wanted, why, by=f"the push of {sender.name}")

    def restored(
        self, origin: Connection, target: Connection, sender_id: uuid.UUID, name: str
    ) -> None:
        duplicate_watch.watch_restored(origin, target, sender_id, name)


RELAY: Relay = PushRelay()
