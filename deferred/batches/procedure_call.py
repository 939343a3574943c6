"""Calls of procedures in a site's queue, between the row changes of their transactions.

They are numbered together with the row changes, so a transaction with procedure calls
consists of steps: the row changes before the first call, the call, the row changes
between it and the next one, and so on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, FromClause, TableClause, func, select

from deferred.batches.batch import PART, Batch, placed, within
from deferred.batches.called import ProcedureCall, read
from deferred.catalog import delivery, procedure_call
from sites.sessions.prepared import Prepared


def orders(connection: Connection, batch: Batch) -> set[int]:
    """The transactions of a batch that call procedures, by order number."""
    # The EXISTS runs first: usually there are no calls, and the lookups are skipped.
    any_at_all = select(procedure_call.c.xid).correlate(None).exists()
    all_of_it = within(batch, -1, batch.end)
    wanted = _of(batch.destination, all_of_it, delivery.c.order_no)
    return set(connection.scalars(wanted.where(any_at_all)))


def by_transaction(
    connection: Connection, batch: Batch, after: int, end: int
) -> dict[int, tuple[ProcedureCall, ...]]:
    """The calls of procedures in a part of a batch: order number -> calls, in order.

    Parameters:
        after, end: the transactions after the first order number, up to the second.
    """
    found: defaultdict[int, tuple[ProcedureCall, ...]] = defaultdict(tuple)
    for row in _CALLED.run(connection, **placed(batch, after, end)):
        found[row.order_no] += (read(row),)
    return found


_CALLED = Prepared(
    select(
        delivery.c.order_no,
        procedure_call.c.call_no,
        procedure_call.c.name,
        procedure_call.c.arguments,
        procedure_call.c.ran_here,
    )
    .join_from(delivery, procedure_call, procedure_call.c.xid == delivery.c.xid)
    .where(PART, delivery.c.destination == func.any(procedure_call.c.destinations))
    .order_by(procedure_call.c.call_no)
)


def steps(
    destination: str,
    part: ColumnElement[bool],
    among: Callable[[ColumnElement[Any]], ColumnElement[bool]],
) -> sa.Subquery:
    """The steps of transactions: xid, and the range of call numbers of each step.

    A step holds the calls after `after`, up to `order_no`: the number of the procedure
    call that ends it, or for the last step the transaction's own order number.

    Parameters:
        part: the condition that a delivery is of these transactions.
        among: given a transaction's id, the condition that it is wanted.
    """
    called = procedure_call.c.call_no.label("order_no")
    ends = sa.union_all(
        _of(destination, part, delivery.c.xid, called),
        select(delivery.c.xid, delivery.c.order_no).where(part),
    ).subquery()
    ends = select(ends).where(among(ends.c.xid)).subquery()
    before = func.lag(ends.c.order_no, 1, sa.literal(-1, sa.BigInteger)).over(
        partition_by=ends.c.xid, order_by=ends.c.order_no
    )
    return select(ends.c.xid, ends.c.order_no, before.label("after")).subquery()


def runs_there(call: TableClause, destination: str) -> ColumnElement[bool]:
    """Whether a destination runs the procedure that made a change here.

    Parameters:
        call: the queue that holds the change.
    """
    return _of_maker(call, lambda maker: _goes_to(maker, destination))


def maker(call: TableClause, destination: str) -> ColumnElement[str | None]:
    """The procedure that made a change here, if it runs at a destination too."""
    return _of_maker(
        call, lambda maker: sa.case((_goes_to(maker, destination), maker.c.name))
    )


def _goes_to(called: FromClause, destination: str) -> ColumnElement[bool]:
    return sa.literal(destination) == func.any(called.c.destinations)


def _of_maker(
    call: TableClause, what: Callable[[FromClause], ColumnElement[Any]]
) -> ColumnElement[Any]:
    """An expression over the last procedure call that ran here before a change.

    That procedure made the change if the change's kind is queued in lower case.
    """
    made_by = procedure_call.alias("made_by")
    return (
        select(what(made_by))
        .where(made_by.c.xid == call.c.xid, made_by.c.ran_here)
        .where(made_by.c.call_no < call.c.call_no)
        .order_by(made_by.c.call_no.desc())
        .limit(1)
        .scalar_subquery()
    )


def _of(
    destination: str, part: ColumnElement[bool], *columns: ColumnElement[Any]
) -> sa.Select[*tuple[Any, ...]]:
    return (
        select(*columns)
        .join_from(delivery, procedure_call, procedure_call.c.xid == delivery.c.xid)
        .where(part, _goes_to(procedure_call, destination))
    )
