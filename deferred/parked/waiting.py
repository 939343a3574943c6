"""Who waits for whom in the error queue."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from deferred.catalog import error_transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A parked transaction that waits for another one to be settled first."""

    waiting: int
    on: int


def around(
    connection: Connection, origin_id: uuid.UUID, error_id: int
) -> tuple[Edge, ...]:
    """What a parked transaction waits for, and what waits for it, near and far.

    What it would wait for and was settled meanwhile is not among them.
    """
    of_origin = error_transaction.c.origin_id == origin_id
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


def _reached(start: Collection[int], steps: Iterable[tuple[int, int]]) -> set[int]:
    ways: dict[int, list[int]] = {}
    for here, there in steps:
        ways.setdefault(here, []).append(there)
    reached, open_ = set(start), list(start)
    while open_:
        for there in ways.get(open_.pop(), ()):
            if there not in reached:
                reached.add(there)
                open_.append(there)
    return reached
