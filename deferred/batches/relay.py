"""The seam between a push and replication groups.

The changes of a group travel over several masters. `groups.relay` does what that takes
beyond a push; a push between two databases that are in no group does none of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, cast

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, select

from deferred.batches.batch import Batch, QueuedTransaction
from deferred.batches.provenance import Sender
from deferred.catalog import duplicate_watch
from deferred.queues.queue import Queue
from masters.catalog import group_schema
from masters.group_schema import SchemaVersion
from sites import QualifiedName
from sites.sessions.prepared import Prepared
from sites.writing.staged import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the transactions of a batch are applied, because of replication groups."""

    #: tables whose transactions are each applied alone
    alone: frozenset[QualifiedName] = frozenset()
    #: the destination sends changes of some tables on, those of its users' triggers
    #: too: each transaction is committed by itself
    sends_on: bool = False
    #: transactions may have come by another route: each is applied by itself
    may_hold_duplicates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What was found before a batch."""

    #: the destination's watch list may have grown
    may_watch: bool = False
    #: the shapes of the origin's tables that are in groups
    versions: Mapping[QualifiedName, SchemaVersion] = field(default_factory=dict)


class Relay:
    """What replication groups add to a push: nothing, if its databases are in none."""

    #: What a destination is asked before it gets a batch, besides what every push asks;
    #: may take `its_sender`.
    ADMITTING: ClassVar[tuple[ColumnElement[Any], ...]] = ()

    def before_batch(self, origin: Connection, target: Connection) -> Before:
        """Tell the destination which transactions may come twice; commits there.

        Both connections are outside a transaction.
        """
        return Before()

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
        """Refuse a batch, or say how its transactions are applied.

        Parameters:
            watch_version: how often the destination's watch list has grown.
            before: what `before_batch` has found.
            answered: waits for what the destination answers to `ADMITTING`.

        Raises:
            OtherSchemaVersion: DDL of a group has arrived at one end only.
            ColumnRenamed: a column has another name there than the group knows.
            NoMasterAnyMore: a group has forgotten the sender.
        """
        return Terms()

    def admit(
        self,
        target: Connection,
        sender: Sender,
        transaction: QueuedTransaction,
        staged: Sequence[Staged],
    ) -> bool:
        """Drop those changes of a transaction that were applied here already.

        Returns:
            Whether it is certain that none of the others were.
        """
        return True

    def hold(self, target: Connection, tables: Collection[QualifiedName]) -> str | None:
        """Why changes of these tables are held back here; None if they are not."""
        return None

    def applied(
        self,
        sender: Sender,
        transaction: QueuedTransaction,
        tables: Collection[QualifiedName],
    ) -> sa.Insert | None:
        """What notes that a transaction has changed these tables, or was parked.

        It is written with the marker.
        """
        return None

    def applied_together(
        self,
        origin: Connection,
        target: Connection,
        batch: Batch,
        queues: Sequence[Queue],
        sender: Sender,
        part: tuple[int, int],
    ) -> None:
        """Note that the transactions of a part of a batch were applied.

        Parameters:
            part: those after the first order number, up to the second.
        """

    def parked(
        self,
        target: Connection,
        sender: Sender,
        tables: Collection[QualifiedName],
        why: str,
    ) -> None:
        """Hold back what else comes for these tables, because a transaction failed."""

    def masters(self, target: Connection, group_id: uuid.UUID) -> int:
        """How many masters of a group make changes, as far as is known here."""
        return 1

    def restored(
        self, origin: Connection, target: Connection, sender_id: uuid.UUID, name: str
    ) -> None:
        """Let a destination watch for what a restored origin may send on again."""

    def refuse_gap(self, origin: Connection, target: Connection, row: Row[Any]) -> None:
        """Make sure that a destination has what came by another way and is purged.

        Parameters:
            row: the origin's row of the destination.

        Raises:
            PastRetention: it was restored to before that.
        """


NO_GROUP = Relay()


#: Whether a database is in a replication group, or has a watch list of one.
CONCERNED: ColumnElement[bool] = sa.or_(
    sa.exists().select_from(group_schema), sa.exists().select_from(duplicate_watch)
)
_IS_CONCERNED = Prepared(select(CONCERNED))


def at(connection: Connection) -> Relay:
    """What a push from or to a database has to do for the groups there."""
    return of_groups() if _IS_CONCERNED.run(connection).scalar() else NO_GROUP


@cache
def of_groups() -> Relay:
    """The relay of replication groups, as this distribution declares it.

    Raises:
        ImportError: Snaptide's modules are here, but it is not installed.
    """
    declared = [*entry_points(group="snaptide.relay", name="groups")]
    if not declared:
        raise ImportError(
            "A push of a replication group needs what Snaptide's installation "
            "declares, and it is not installed: install it with pip instead of "
            "copying its folders."
        )
    return cast(Relay, declared[0].load())
