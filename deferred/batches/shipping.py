"""Shipping: copy net changes from the origin's queues into the destination's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, Subquery, func, select

from deferred.batches import batch as batches
from deferred.batches import (
    net_change,
    procedure_call,
    unfit,
    work,
)
from deferred.batches.batch import PART, Batch, QueuedTransaction, placed
from deferred.batches.marker import Marker
from deferred.batches.relay import NO_GROUP, Relay, Terms
from deferred.catalog import delivery
from deferred.queues import target_columns, unsent
from deferred.queues.queue import Queue
from masters.rules import Comparison, ruled_columns, table_rules
from sites import traces
from sites.errors import ValueDoesNotFit
from sites.progress import RowsDone
from sites.sessions.prepared import planned_once
from sites.transfer import transport
from sites.writing.staged import Staged

#: The planner takes a new table for a small one; one with more rows is analysed.
ANALYZED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """All that is needed to ship a batch: two connections, queues and work tables."""

    origin: Connection
    target: Connection
    batch: Batch
    queues: Sequence[Queue]
    #: the work table of each queue, in the same order
    staged: Sequence[Staged]
    #: which columns of each are compared, and so sent
    comparisons: Sequence[Comparison]
    #: by work table, the columns whose values the destination may round or cut, with
    #: the types that they have here
    narrower: Mapping[sa.TableClause, Mapping[str, str]] = field(default_factory=dict)
    #: how replication groups want its transactions applied, and their part in that
    terms: Terms = field(default_factory=Terms)
    relay: Relay = NO_GROUP
    #: the marker's `watch_version` when the batch was admitted
    watch_version: int = 0
    #: when parts of it were sent
    sending: traces.Pieces = field(default_factory=traces.Pieces)

    def watches(self, at: Marker) -> bool:
        """Whether its transactions may have come already, by the marker of now.

        The watch list may have grown since the batch was admitted.
        """
        if at.watch_version == self.watch_version:
            return self.terms.may_hold_duplicates
        return at.watch_version != 0

    @property
    def may_change_values(self) -> bool:
        """Whether the destination may round or cut values."""
        return bool(self.narrower)

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
    found = {row.id for row in origin.execute(wanted, placed(batch, -1, batch.end))}
    return [queue for queue in queues if queue.id in found]


@lru_cache(maxsize=64)
def _having_calls(queues: tuple[Queue, ...]) -> sa.CompoundSelect[Any]:
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
    return planned_once(sa.union_all(*each))


def ask(
    target: Connection,
    queues: Sequence[Queue],
    relay: Relay = NO_GROUP,
    sender: str = "",
) -> sa.Row[Any]:
    """Ask a destination what a batch has to be prepared for.

    Parameters:
        queues: those with calls in the batch.
        relay: what replication groups ask besides; they may need the sender.
    """
    wanted = {**work.asked([queue.id for queue in queues]), "its_sender": sender}
    return target.execute(_asking(relay.ADMITTING), wanted).one()


@cache
def _asking(also: tuple[ColumnElement[Any], ...]) -> sa.Select[Any]:
    """Read the states of work tables, the version of the rules, and other columns."""
    return planned_once(select(work.STATES, table_rules.LAST_VERSION, *also))


def prepare_shipment(
    origin: Connection,
    target: Connection,
    batch: Batch,
    queues: Sequence[Queue],
    seen: sa.Row[Any] | None = None,
) -> Shipment:
    """Prepare work tables for a batch. Creates them; commits nothing.

    Parameters:
        queues: those with calls in the batch.
        seen: what the destination has answered to `ask` in this transaction, if it was
            asked.

    Raises:
        UnknownTable, UnknownColumn: a master table, or a column of it, is gone.
        TargetColumnsMoved: columns of a master table have exchanged names.
        RulesMoved: rules name other columns than they were made for.
    """
    seen = seen or ask(target, queues)
    states = work.states_in(seen.states)
    staged = [
        work.stage(
            target,
            q.id,
            q.target,
            q.columns,
            q.identity_columns,
            emptied=False,
            state=states[q.id],
        )
        for q in queues
    ]
    for queue, one in zip(queues, staged, strict=True):
        target_columns.refuse_moved(queue, one.table)
    return Shipment(
        origin=origin,
        target=target,
        batch=batch,
        queues=queues,
        staged=staged,
        comparisons=[
            ruled_columns.known(target, one, seen.version).comparison for one in staged
        ],
        narrower={
            one.source: narrower
            for queue, one in zip(queues, staged, strict=True)
            if (
                narrower := target_columns.narrower(
                    queue.columns, queue.types, one.table
                )
            )
        },
    )


def prepare_again(
    shipment: Shipment, origin: Connection, target: Connection
) -> Shipment:
    """Prepare work tables for the same batch, on these connections."""
    again = prepare_shipment(origin, target, shipment.batch, shipment.queues)
    return replace(
        again,
        terms=shipment.terms,
        relay=shipment.relay,
        watch_version=shipment.watch_version,
        sending=shipment.sending,
    )


def ship(
    shipment: Shipment,
    after: int,
    end: int,
    *,
    together: bool,
    bulk: int,
    calls: int,
    transactions: int,
    only: Sequence[int] | None = None,
    in_steps: bool = False,
    on_progress: RowsDone | None = None,
) -> None:
    """Fill the work tables with the net changes of a part of the batch.

    Parameters:
        after, end: the transactions after the first order number, up to the second.
        together: as one change, with `end` for its unit; else each by itself.
        bulk: a table's changes go by COPY if they are at least this many rows.
        calls: the most calls that the transactions can have.
        transactions: how many transactions there are.
        only: the order numbers among them that are wanted; all when not given.
        in_steps: some call procedures, so that each step is a unit.
        on_progress: called from time to time with how many changes have been sent.
    """
    few = calls < bulk and only is None and not in_steps
    if not few:
        work.clear(shipment.target, shipment.staged)
    _set_part(shipment, after, end, only or ())
    part = _Part(after=after, end=end, only=only, in_steps=in_steps, together=together)
    queries = _queries(shipment, part, single=calls == transactions)
    with shipment.sending.piece():
        _send(shipment, queries, None if few else bulk, on_progress)
    shipment.origin.commit()  # nothing was written there


def _send(
    shipment: Shipment,
    queries: Iterable[tuple[Staged, str]],
    bulk: int | None,
    on_progress: RowsDone | None,
) -> None:
    """Fill each work table with what its query finds.

    Parameters:
        bulk: as for `ship`; None if there are few changes in all.
    """
    gone = 0
    for staged, query in queries:
        tell = partial(_report_rows, on_progress, gone) if on_progress else None
        if bulk is None:
            gone += transport.send(
                shipment.origin,
                query,
                shipment.target,
                staged.source,
                work.columns_of(staged),
            )
            continue
        gone += _fill(shipment, staged, query, bulk, tell)


def ship_what_fits(
    shipment: Shipment, transaction: QueuedTransaction, after: int, *, codec: str
) -> ValueDoesNotFit | None:
    """Fill the work tables with one transaction, some of whose values may not fit.

    Values that the destination would round or cut do not fit.

    Parameters:
        after: the order number before it.
        codec: of the destination's encoding.

    Returns:
        Why it cannot be applied; None if all of it fits.
    """
    number = transaction.order_no
    work.clear(shipment.target, shipment.staged)
    unfit.begin(shipment.target)
    _set_part(shipment, after, number, [number])
    steps = bool(transaction.procedures)
    part = _Part(after=after, end=number, only=[number], in_steps=steps)
    with shipment.sending.piece():
        for staged, query in _queries(shipment, part, single=False):
            unfit.stage(
                shipment.origin,
                query,
                shipment.target,
                staged,
                codec,
                shipment.narrower.get(staged.source, {}),
            )
    shipment.origin.commit()  # nothing was written there
    return unfit.reason(shipment.target, shipment.staged)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Which transactions of a batch are shipped, and how; as for `ship`."""

    after: int
    end: int
    only: Sequence[int] | None
    in_steps: bool
    together: bool = False


def _queries(
    shipment: Shipment, part: _Part, *, single: bool
) -> Iterator[tuple[Staged, str]]:
    """For each work table, the query that fills it."""
    only = part.only
    tables = zip(shipment.queues, shipment.staged, shipment.comparisons, strict=True)
    for queue, staged, comparison in tables:
        each_has_one = single
        if part.in_steps:
            # A transaction may call procedures alone, and another change many rows.
            wanted, each_has_one = _steps, False
        elif only is not None and len(only) == 1 and queue.group_id is None:
            wanted = _last
        else:
            wanted = _all if only is None else _listed
        built = ("shipped", queue, comparison, part.together, wanted, each_has_one)
        yield staged, staged.keep(built, partial(_query, staged, *built[1:]))


_SET_PART = planned_once(
    select(
        *(
            func.set_config(
                f"snaptide.{name}", sa.bindparam(f"its_{name}", type_=sa.Text), True
            )
            for name in ("batch", "after", "end", "only")
        ),
        *net_change.EXPECTING_MANY,
    )
)


def _setting(name: str) -> ColumnElement[Any]:
    type_ = sa.ARRAY(BigInteger) if name == "only" else BigInteger()
    return sa.cast(func.current_setting(f"snaptide.{name}"), type_)


#: The part of a batch to ship, read from session settings: so the text of a query stays
#: the same; for a few changes, building it takes longer than running it.
_BATCH, _AFTER, _END, _ONLY = map(_setting, ("batch", "after", "end", "only"))


def _set_part(shipment: Shipment, after: int, end: int, only: Sequence[int]) -> None:
    """Set the part of the batch in the session until `ship` ends the transaction."""
    listed = f"{{{','.join(map(str, only))}}}"
    values = {
        "batch": shipment.batch.number,
        "after": after,
        "end": end,
        "only": listed,
    }
    shipment.origin.execute(
        _SET_PART, {f"its_{name}": str(v) for name, v in values.items()}
    )


#: The transactions, or their steps, whose calls a queue sends to the destination.
_Wanted = Callable[[Queue], Subquery]


def _query(
    staged: Staged,
    queue: Queue,
    comparison: Comparison,
    together: bool,
    wanted: _Wanted,
    single: bool,
) -> str:
    """The query for a queue's net changes, of transactions or of their steps."""
    unit = _END if together else None
    changes = net_change.net_changes(queue, wanted(queue), unit, single=single)
    text = transport.literal_text(unsent.without(changes, staged, comparison))
    # Another queue may have had this table's name before.
    return f"/* queue {queue.id} */ {text}"


def _all(queue: Queue) -> Subquery:
    """The transactions of the part."""
    return _deliveries(queue).subquery()


def _listed(queue: Queue) -> Subquery:
    """Those of them that the session setting lists."""
    return _deliveries(queue).where(delivery.c.order_no == func.any(_ONLY)).subquery()


def _deliveries(queue: Queue) -> sa.Select[Any]:
    return select(delivery.c.xid, delivery.c.order_no, delivery.c.calls).where(
        _part(queue), queue.goes_there(delivery.c.xid)
    )


def _last(queue: Queue) -> Subquery:
    """The last transaction of the part.

    Its calls are found without a join, which would take longer than reading them.
    """
    its = select(delivery.c.xid).where(_part(queue), delivery.c.order_no == _END)
    return select(its.scalar_subquery().label("xid"), _END.label("order_no")).subquery()


def _steps(queue: Queue) -> Subquery:
    """The steps of the transactions of the part."""
    return procedure_call.steps(queue.destination, _part(queue), queue.goes_there)


def _part(queue: Queue) -> ColumnElement[bool]:
    return batches.part(queue.destination, _BATCH, _AFTER, _END)


def _report_rows(on_progress: RowsDone, before: int, rows: int) -> None:
    on_progress(before + rows)


def _looked_at(staged: Staged) -> list[str]:
    """The columns by which rows are found; others need no statistics."""
    numbers = [staged.columns.index(name) + 1 for name in staged.identity]
    keys = [f"{side}{n}" for side in ("o", "n") for n in numbers]
    return ["unit", "several", "kind", *keys]


def _fill(
    shipment: Shipment,
    staged: Staged,
    query: str,
    bulk: int,
    on_progress: RowsDone | None,
) -> int:
    rows = transport.copy(
        shipment.origin,
        query,
        shipment.target,
        staged.source,
        work.columns_of(staged),
        few=bulk,
        on_progress=on_progress,
    )
    if rows > ANALYZED:
        transport.analyze(shipment.target, staged.source, _looked_at(staged))
    return rows
