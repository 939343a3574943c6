"""Counts transactions that wait at a site, by the dictionary view `deftrandest`."""

from __future__ import annotations

from dataclasses import dataclass

from snaptide.demo.world import World

_WAITING = "SELECT count(*), coalesce(sum(calls), 0) FROM snaptide.deftrandest"


@dataclass(frozen=True, slots=True)
class Queued:
    """The number of undelivered transactions, and of their calls."""

    transactions: int
    calls: int


def queued(world: World, site: str) -> Queued:
    """Count the transactions and calls of a site that are not delivered yet."""
    with world.application(site) as session:
        row = session.execute(_WAITING).fetchone()
    return Queued(int(row[0]), int(row[1])) if row else Queued(0, 0)


def all_delivered(world: World) -> bool:
    """Whether all airports have delivered all their transactions."""
    return not any(queued(world, site.name).transactions for site in world.airports)
