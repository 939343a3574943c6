"""Shipping: copy net changes from the origin's queues into the destination's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    func,
    select,
)
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import batch as batches
from deferred.batches import gone_columns, net_change, procedure_call, unfit, work
from deferred.batches.batch import QueuedTransaction
from deferred.batches.gone_columns import Gone
from deferred.batches.shipment import Shipment
from deferred.catalog import delivery
from deferred.errors import GivesGoneColumn
from deferred.queues.queue import Queue
from masters.rules import Comparison
from sites.errors import ValueDoesNotFit, ValueNotSent
from sites.progress import RowsDone
from sites.sessions.exchange import Bound, hold
from sites.sessions.prepared import Prepared
from sites.tables.analyze import analyze
from sites.transfer import transport
from sites.writing.staged import UPDATES, Staged

#: The planner takes a new table for a small one; one with more rows is analysed.
ANALYZED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which transactions of a batch are shipped, and how."""

    #: the transactions after the first order number, up to the second
    after: int
    end: int
    #: the order numbers among them that are wanted; None for all
    only: Sequence[int] | None = None
    #: how many transactions there are, and the most calls that they can have
    transactions: int
    calls: int
    #: as one change, with `end` for its unit; else each by itself
    together: bool = False
    #: some call procedures, so that each step is a unit
    in_steps: bool = False

    @property
    def single(self) -> bool:
        """Whether each transaction has one call."""
        return self.calls == self.transactions


def ship(
    shipment: Shipment, part: Part, bulk: int, on_progress: RowsDone | None = None
) -> None:
    """Fill the work tables with the net changes of a part of the batch.

    Parameters:
        bulk: a table's changes go by COPY if they are at least this many rows.
        on_progress: called from time to time with how many changes have been sent.
    """
    queries, setting = _queries(shipment, part), _set_part(shipment, part)
    if part.calls < bulk and part.only is None and not part.in_steps:
        with shipment.sending.piece():
            _send_few(shipment, queries, setting)
    else:
        work.clear(shipment.target, shipment.staged)
        hold(shipment.origin, setting)
        with shipment.sending.piece():
            _send(shipment, queries, bulk, on_progress)
    shipment.origin.commit()  # nothing was written there


def _send_few(
    shipment: Shipment, queries: Iterable[tuple[Staged, str]], setting: Bound
) -> None:
    """Have each work table hold nothing but what its query finds.

    Parameters:
        setting: what sets the part of the batch for the queries.
    """
    for staged, query in queries:
        lift = shipment.lifts.get(staged.source)
        into = staged if lift is None else lift.landed
        transport.send(
            shipment.origin,
            setting,
            query,
            shipment.target,
            into.source,
            work.columns_of(into),
        )
        if lift is not None:
            lift.run(shipment.target, instead=True)


def _send(
    shipment: Shipment,
    queries: Iterable[tuple[Staged, str]],
    bulk: int,
    on_progress: RowsDone | None,
) -> None:
    """Add to each work table what its query finds.

    Parameters:
        bulk: as for `ship`.
    """
    gone = 0
    for staged, query in queries:
        lift = shipment.lifts.get(staged.source)
        into = staged if lift is None else lift.landed
        tell = partial(_report_rows, on_progress, gone) if on_progress else None
        gone += _fill(shipment, into, query, bulk, tell)
        if lift is not None:
            lift.run(shipment.target, instead=False)


def ship_what_fits(
    shipment: Shipment, transaction: QueuedTransaction, after: int, *, codec: str
) -> ValueDoesNotFit | GivesGoneColumn | None:
    """Fill the work tables with one transaction, some of whose values may not fit.

    Values that the destination would round or cut do not fit, and those of columns that
    it has dropped.

    Parameters:
        after: the order number before it.
        codec: of the destination's encoding.

    Returns:
        Why it cannot be applied; None if all of it fits.

    Raises:
        ValueNotSent: the origin itself cannot send a value.
    """
    number = transaction.order_no
    work.clear(shipment.target, shipment.staged)
    unfit.begin(shipment.target)
    part = Part(
        after=after,
        end=number,
        only=[number],
        transactions=1,
        calls=transaction.calls,
        in_steps=bool(transaction.procedures),
    )
    hold(shipment.origin, _set_part(shipment, part))
    with shipment.sending.piece():
        for staged, query in _queries(shipment, part, whole=True):
            lift = shipment.lifts.get(staged.source)
            unfit.stage(
                _sent(shipment.origin, query, staged, number),
                shipment.target,
                staged if lift is None else lift.landed,
                codec,
                shipment.narrower.get(staged.source, {}),
            )
            if lift is not None:
                lift.run(shipment.target, instead=False)
    shipment.origin.commit()  # nothing was written there
    return unfit.reason(shipment.target, shipment.staged, shipment.not_lifted)


def _sent(
    origin: Connection, query: str, staged: Staged, number: int
) -> Iterator[tuple[str | None, ...]]:
    """The rows of a query for a transaction's changes of one table.

    Raises:
        ValueNotSent: the origin cannot print one of their values.
    """
    try:
        yield from transport.rows(origin, query)
    except DBAPIError as error:
        if not (sqlstate.caused_by_data(error) or sqlstate.too_large(error)):
            raise
        raise ValueNotSent(
            f"Transaction {number} changes {staged.table.qualified} to or from a value "
            f"that this site cannot send: {sqlstate.message(error)}",
            order_no=number,
            table=str(staged.table.qualified),
            sqlstate=sqlstate.of(error),
        ) from error


def _queries(
    shipment: Shipment, part: Part, *, whole: bool = False
) -> Iterator[tuple[Staged, str]]:
    """For each work table, the query that fills it.

    Parameters:
        whole: it appends the values of columns that the destination has dropped.
    """
    only = part.only
    tables = zip(shipment.queues, shipment.staged, shipment.comparisons, strict=True)
    for queue, staged, comparison in tables:
        each_has_one = part.single and not whole
        if part.in_steps:
            # A transaction may call procedures alone, and another change many rows.
            wanted, each_has_one = _steps, False
        elif only is not None and len(only) == 1 and queue.group_id is None:
            wanted = _last
        else:
            wanted = _all if only is None else _listed
        built = ("shipped", queue, comparison, part.together, wanted, each_has_one)
        lift = shipment.lifts.get(staged.source)
        sent = staged if lift is None else lift.landed
        if whole and (gone := shipment.gone.get(staged.source)):
            yield staged, _query(sent, *built[1:], gone)
            continue
        yield staged, sent.keep(built, partial(_query, sent, *built[1:]))


_SET_PART = Prepared(
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


def _setting(name: str, type_: sa.types.TypeEngine[Any]) -> ColumnElement[Any]:
    return sa.cast(func.current_setting(f"snaptide.{name}"), type_)


def _number(name: str) -> ColumnElement[int]:
    """A setting that is read once, and not for each row."""
    return select(_setting(name, BigInteger())).scalar_subquery()


#: The part of a batch to ship, read from session settings: so the text of a query stays
#: the same; for a few changes, building it takes longer than running it.
_BATCH, _AFTER, _END = map(_number, ("batch", "after", "end"))
_ONLY = _setting("only", sa.ARRAY(BigInteger))


def _set_part(shipment: Shipment, part: Part) -> Bound:
    """What sets the part of the batch in the session until the transaction ends."""
    values = {
        "batch": shipment.batch.number,
        "after": part.after,
        "end": part.end,
        "only": f"{{{','.join(map(str, part.only or ()))}}}",
    }
    return _SET_PART.bound(**{f"its_{name}": str(v) for name, v in values.items()})


#: The transactions, or their steps, whose calls a queue sends to the destination.
_Wanted = Callable[[Queue], Subquery]


def _query(
    staged: Staged,
    queue: Queue,
    comparison: Comparison,
    together: bool,
    wanted: _Wanted,
    single: bool,
    gone: Gone | None = None,
) -> str:
    """The query for a queue's net changes, of transactions or of their steps."""
    unit = _END if together else None
    among = batches.found_by_xid(queue.destination, _BATCH, _AFTER, _END)
    changes = net_change.net_changes(
        queue,
        wanted(queue),
        unit,
        single=single,
        among=among if wanted is _all else None,
    )
    if staged.columns != queue.columns:
        changes = gone_columns.without(changes, queue, staged, gone)
    text = transport.literal_text(_without_unsent(changes, staged, comparison))
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
    return ["unit", "several", "call_no", "kind", *keys]


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
        analyze(shipment.target, staged.source, _looked_at(staged))
    return rows


def _without_unsent(
    changes: Select[Any], staged: Staged, comparison: Comparison
) -> Select[Any]:
    """The net changes, with NULL for old values that are not to be sent.

    (Oracle: SEND_OLD_VALUES.) Values that are not sent are not compared. An update
    still has to say which columns it changed: an old value stays if the column was left
    alone, since it equals the new one, and if the column was set to NULL.
    """
    if comparison.all_sent:
        return changes
    source = changes.subquery()
    hidden = {
        f"o{n}": _old(staged, source, n, name, comparison)
        for n, name in enumerate(staged.columns, 1)
        if name not in staged.identity
    }
    return select(*(hidden.get(c.name, c).label(c.name) for c in source.c))


def _old(
    staged: Staged, source: sa.FromClause, n: int, name: str, comparison: Comparison
) -> ColumnElement[Any]:
    old, new = source.c[f"o{n}"], source.c[f"n{n}"]
    told = sa.or_(new.is_(None), staged.table.column(name).unchanged(old, new))
    kinds = []
    if name in comparison.not_sent_at_update:
        kinds.append(sa.and_(source.c.kind.in_(UPDATES), ~told))
    if name in comparison.not_sent_at_delete:
        kinds.append(source.c.kind == "D")
    return sa.case((sa.or_(*kinds), None), else_=old) if kinds else old
