"""Dependences between parked transactions: which one waits for which."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Connection, Text, func, select

from deferred.error_catalog import error_transaction
from deferred.errors import PredecessorLost, WaitsForError
from sites.writing.staged import selected

#: The reason of a transaction that is parked because it depends on another one.
DEPENDANT = "dependant"

#: The reason of a transaction that is parked because a group of its tables is quiet.
HELD = "quiet"

#: Why an operator has to decide about a transaction that came later.
LOST = (
    "The transaction depends on a row that its site has and the master does not: the "
    "row was given up, dropped by a rule, or has another key now."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A parked transaction that waits for another one to be settled first."""

    waiting: int
    on: int


def around(
    connection: Connection, sender_id: uuid.UUID, error_id: int
) -> tuple[Edge, ...]:
    """What a parked transaction waits for, and what waits for it, directly or not.

    Transactions that were settled meanwhile are not among them.
    """
    of_origin = error_transaction.c.origin_id == sender_id
    on = func.unnest(error_transaction.c.waits_for).label("waited_for")
    waits = select(error_transaction.c.id, on).where(of_origin).subquery()
    parked = select(error_transaction.c.id).where(of_origin)
    rows = connection.execute(
        select(waits).where(waits.c.waited_for.in_(parked)).order_by(*waits.c)
    )
    edges = [Edge(waiting=row.id, on=row.waited_for) for row in rows]
    near = _reached({error_id}, ((e.waiting, e.on) for e in edges))
    near |= _reached({error_id}, ((e.on, e.waiting) for e in edges))
    return tuple(e for e in edges if {e.waiting, e.on} <= near)


def release(
    connection: Connection,
    gone: Sequence[int],
    lost: str | None = None,
    *,
    in_part: bool = False,
) -> None:
    """Remove transactions that have left the error queue from the waits of others.

    Writes error_transaction.

    Parameters:
        lost: why the rows that they made do not exist for those that wait; an operator
            has to decide about these.
        in_part: calls of them are still parked, so those that wait go on waiting.
    """
    at, them = error_transaction.c, sa.literal(list(gone), sa.ARRAY(BigInteger))
    named = func.unnest(at.waits_for).column_valued("named")
    still, settled = (
        func.array(select(named).where(which).scalar_subquery())
        for which in (named != func.all(them), named == func.any(them))
    )
    values: dict[str, object] = {} if in_part else {"waits_for": still}
    if lost is not None:
        numbers = func.array_to_string(settled, ", ")
        values |= {
            "reason": DEPENDANT,
            "error_code": PredecessorLost.code,
            "error_message": sa.literal("Depends on error transaction ", Text)
            + numbers
            + f", {lost}. Retry it by its number, or delete it.",
        }
    if values:
        waiting = sa.update(error_transaction).where(at.waits_for.overlap(them))
        connection.execute(waiting.values(values))


def refuse_before_its_turn(connection: Connection, row: sa.Row[Any]) -> None:
    """Refuse to retry a transaction before those that it depends on.

    Raises:
        WaitsForError: one of them is still parked.
    """
    waited_for = selected(error_transaction, {"id": tuple(row.waits_for)})
    found = connection.scalars(select(error_transaction.c.id).where(waited_for))
    if still := list(found):
        raise WaitsForError(
            f"Error transaction {row.id} waits for {', '.join(map(str, still))}.",
            error_id=row.id,
            waits_for=still,
        )


def has_lost(row: sa.Row[Any]) -> bool:
    """Whether a parked transaction depends on lost rows: an operator has to decide."""
    return (row.reason, row.error_code) == (DEPENDANT, PredecessorLost.code)


def _reached(start: Collection[int], steps: Iterable[tuple[int, int]]) -> set[int]:
    reached_from: dict[int, list[int]] = {}
    for here, there in steps:
        reached_from.setdefault(here, []).append(there)
    reached, open_ = set(start), list(start)
    while open_:
        for there in reached_from.get(open_.pop(), ()):
            if there not in reached:
                reached.add(there)
                open_.append(there)
    return reached
