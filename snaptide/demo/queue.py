"""What waits at a site, by the dictionary view `deftrandest`."""

from __future__ import annotations

from dataclasses import dataclass

from snaptide.demo.world import World

_WAITING = "SELECT count(*), coalesce(sum(calls), 0) FROM snaptide.deftrandest"


@dataclass(frozen=True, slots=True)
class Queued:
    """Transactions on their way, and their calls."""

    transactions: int
    calls: int


def queued(world: World, site: str) -> Queued:
    """What a site has not seen delivered yet."""
    with world.application(site) as session:
        row = session.execute(_WAITING).fetchone()
    return Queued(int(row[0]), int(row[1])) if row else Queued(0, 0)


def all_delivered(world: World) -> bool:
    """Whether nothing waits at any airport."""
    return not any(queued(world, site.name).transactions for site in world.airports)
