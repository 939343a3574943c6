"""A batch that is ready to be shipped: its queues, and work tables to fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import gone_columns, lifting, work
from deferred.batches.batch import PART, Batch, QueuedTransaction, placed
from deferred.batches.gone_columns import Gone
from deferred.batches.ledger import Listing, Noted
from deferred.batches.lifting import Lift
from deferred.batches.marker import Marker
from deferred.batches.relay import NO_GROUP, Relay, Terms
from deferred.catalog import delivery
from deferred.queues import target_columns
from deferred.queues.queue import Queue
from masters.rules import Comparison, table_rules
from sites import QualifiedName, traces
from sites.sessions.exchange import Later, send
from sites.sessions.prepared import Prepared
from sites.tables.table import describe, question
from sites.writing.staged import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """All that is needed to ship a batch: two connections, queues and work tables."""

    origin: Connection
    target: Connection
    batch: Batch
    #: by the names that columns have at the destination now
    queues: Sequence[Queue]
    #: the work table of each queue, in the same order
    staged: Sequence[Staged]
    #: which columns of each are compared, and so sent
    comparisons: Sequence[Comparison]
    #: by work table, the columns whose values the destination may round or cut, with
    #: the types that they have here
    narrower: Mapping[sa.TableClause, Mapping[str, str]] = field(default_factory=dict)
    #: by work table, the columns of its queue that the destination has dropped
    gone: Mapping[sa.TableClause, Gone] = field(default_factory=dict)
    #: by work table, how changes of columns that are gone come to those in their place;
    #: these are not among `gone`
    lifts: Mapping[sa.TableClause, Lift] = field(default_factory=dict)
    #: why changes of a transaction are not lifted
    not_lifted: str = ""
    #: the order numbers of transactions that give a column of `gone` a value
    giving: frozenset[int] = frozenset()
    #: its transactions, as the ledger has them
    listed: Listing = field(default_factory=Listing)
    #: what the ledger was told of it
    noted: Noted | None = None
    #: waits for its only transaction, if there is one and it was asked for
    queued: Callable[[], list[QueuedTransaction]] | None = None
    #: how replication groups want its transactions applied, and their part in that
    terms: Terms = field(default_factory=Terms)
    relay: Relay = NO_GROUP
    #: where the marker stood when the batch was admitted
    began_at: Marker = field(default_factory=Marker)
    #: when parts of it were sent
    sending: traces.Pieces = field(default_factory=traces.Pieces)

    def watches(self, at: Marker) -> bool:
        """Whether its transactions may have come already, by the marker of now.

        The watch list may have grown since the batch was admitted.
        """
        if at.watch_version == self.began_at.watch_version:
            return self.terms.may_hold_duplicates
        return at.watch_version != 0

    def enter(self, at: Marker) -> None:
        """Have the ledger name this batch, if its first transaction is applied now.

        Parameters:
            at: the marker, which is locked.
        """
        if self.noted is not None and at.batch_id != self.batch.id:
            self.noted.put_right(self.target)

    @property
    def may_change_values(self) -> bool:
        """Whether the destination may round or cut values."""
        return bool(self.narrower)

    def is_by_itself(self, order_no: int) -> bool:
        """Whether values of a transaction may not fit at the destination."""
        return self.may_change_values or order_no in self.giving

    def is_refused(self, error: DBAPIError) -> bool:
        """Whether its changes cannot be shipped as they are.

        A function that a lens calls may be gone: that stops no other change.
        """
        if self.lifts and sqlstate.caused_by_transaction(error):
            return True
        return sqlstate.caused_by_data(error) or sqlstate.too_large(error)

    @property
    def sources(self) -> dict[str, str]:
        """By id of a group, a master whose changes go this way; '' is this site."""
        return {
            str(queue.group_id): queue.sources[0]
            for queue in self.queues
            if queue.group_id is not None
        }


def with_calls(
    origin: Connection, batch: Batch, queues: Sequence[Queue]
) -> Sequence[Queue]:
    """The queues that have calls in a batch: the others need no work tables.

    Parameters:
        queues: all that go to the batch's destination.
    """
    if len(queues) < 2:
        return queues
    wanted = _having_calls(tuple(queues))
    found = {row.id for row in wanted.run(origin, **placed(batch, -1, batch.end))}
    return [queue for queue in queues if queue.id in found]


@lru_cache(maxsize=64)
def _having_calls(queues: tuple[Queue, ...]) -> Prepared:
    """The numbers of those queues that have calls in a part of a batch."""
    each = []
    for queue in queues:
        calls = queue.sql()
        there = (
            sa.exists()
            .where(calls.c.xid == delivery.c.xid, PART)
            .where(queue.goes_there(delivery.c.xid))
        )
        each.append(select(sa.literal(queue.id).label("id")).where(there))
    return Prepared(sa.union_all(*each))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a destination was asked about a batch; it answers when that is read."""

    _row: Later
    #: by name, its tables
    tables: Mapping[QualifiedName, Later]

    def row(self) -> sa.Row[Any]:
        """The states of work tables, the version of the rules, and other columns."""
        return self._row.answer().one()


def ask(
    target: Connection,
    queues: Sequence[Queue],
    relay: Relay = NO_GROUP,
    sender: str = "",
) -> Asked:
    """Ask a destination what a batch has to be prepared for, and do not wait.

    Parameters:
        queues: those with calls in the batch.
        relay: what replication groups ask besides; they may need the sender.
    """
    wanted = {**work.asked([queue.id for queue in queues]), "its_sender": sender}
    names = list(dict.fromkeys(queue.target for queue in queues))
    row, *tables = send(
        target,
        _asking(relay.ADMITTING).bound(**wanted),
        *(question(target, name) for name in names),
    )
    return Asked(row, dict(zip(names, tables, strict=True)))


@cache
def _asking(also: tuple[ColumnElement[Any], ...]) -> Prepared:
    """Read the states of work tables, the version of the rules, and other columns."""
    return Prepared(select(work.STATES, table_rules.LAST_VERSION, *also))


def prepare_shipment(
    origin: Connection,
    target: Connection,
    batch: Batch,
    queues: Sequence[Queue],
    asked: Asked | None = None,
    *,
    not_lifted: str = "",
) -> Shipment:
    """Prepare work tables for a batch. Creates them; commits nothing.

    Parameters:
        queues: those with calls in the batch.
        asked: what `ask` has asked the destination a moment ago, if it was asked.
        not_lifted: why changes of columns that are gone are not to be lifted.

    Raises:
        UnknownTable, UnknownColumn: a master table is gone, or a column of one that was
            made anew.
        TargetColumnsMoved: a column of the key is gone.
        RulesMoved: rules name other columns than they were made for.
    """
    asked = asked or ask(target, queues)
    seen = asked.row()
    states = work.states_in(seen.states)
    named, staged, lifts = [], [], dict[sa.TableClause, Lift]()
    for one in queues:
        queue, work_table, lift = _staged(
            target, one, asked, states[one.id], lifts=not not_lifted
        )
        named.append(queue)
        staged.append(work_table)
        if lift is not None:
            lifts[work_table.source] = lift
    both = list(zip(named, staged, strict=True))
    gone = dict[sa.TableClause, Gone]()
    for queue, work_table in both:
        lift = lifts.get(work_table.source)
        sent = work_table.columns if lift is None else lift.landed.columns
        if left := [name for name in queue.columns if name not in sent]:
            gone[work_table.source] = gone_columns.found(origin, queue, left)
    giving = (one.giving(origin, batch) for one in gone.values())
    return Shipment(
        origin=origin,
        target=target,
        batch=batch,
        queues=named,
        staged=staged,
        comparisons=[
            table_rules.known(target, one, seen.version).comparison for one in staged
        ],
        narrower={
            one.source: its
            for q, one in both
            if (its := _narrower(q, one, lifts.get(one.source)))
        },
        gone=gone,
        lifts=lifts,
        not_lifted=not_lifted,
        giving=frozenset[int]().union(*giving),
    )


def _staged(
    target: Connection, queue: Queue, asked: Asked, state: work.State, *, lifts: bool
) -> tuple[Queue, Staged, Lift | None]:
    """A queue by the names that its columns have now, its work table and its lift."""
    table = describe(target, queue.target, asked.tables[queue.target])
    named, carried = queue, queue.columns
    if not queue.is_made_for(table):
        named, carried = target_columns.present(queue, table)
        target_columns.refuse_unknown(table, carried)
    carried = named.taken(table, carried)
    if named.target_numbers is None and len(carried) < len(named.columns):
        # A group's queue knows columns by their names, which the table has.
        numbers = target_columns.numbers_of(named.columns, table)
        named = replace(named, target_oid=table.oid, target_numbers=tuple(numbers))
    if lifts and len(carried) < len(named.columns):
        lift = lifting.found(target, named, table, carried)
        if lift is not None:
            return named, lift.lifted, lift
    identity = named.identity_columns
    made = work.stage(
        target, queue.id, table, carried, identity, emptied=False, state=state
    )
    return named, made, None


def _narrower(queue: Queue, staged: Staged, lift: Lift | None) -> dict[str, str]:
    types = dict(zip(queue.columns, queue.types, strict=True))
    columns = staged.columns if lift is None else lift.carried
    there = {column.name: column.type for column in staged.table.columns}
    other = {n: types[n] for n in columns if types[n] not in (None, there.get(n))}
    if not other:
        return {}
    return target_columns.narrower([*other], [*other.values()], staged.table)


def prepare_again(
    shipment: Shipment,
    origin: Connection,
    target: Connection,
    *,
    not_lifted: str = "",
) -> Shipment:
    """Prepare work tables for the same batch, on these connections.

    Parameters:
        not_lifted: as for `prepare_shipment`.
    """
    again = prepare_shipment(
        origin, target, shipment.batch, shipment.queues, not_lifted=not_lifted
    )
    return replace(
        again,
        listed=shipment.listed,
        noted=shipment.noted,
        terms=shipment.terms,
        relay=shipment.relay,
        began_at=shipment.began_at,
        sending=shipment.sending,
    )
