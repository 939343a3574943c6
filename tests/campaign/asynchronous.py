"""Crashes of push, refresh, purge, creation, drop and upgrade, while users write."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from functools import cache
from random import Random

from tests.campaign import crash, deck, services
from tests.campaign.kinds import Crash
from tests.campaign.servers import Servers
from tests.campaign.verbs import VERBS
from tests.campaign.world import World

#: Crashes before the end state is compared.
EPISODE = 50

#: One episode in so many is about workers, beat and Redis.
WITH_SERVICES = 4


def points() -> list[str]:
    """All fault points of all verbs."""
    return deck.points(VERBS)


def size(number: int) -> int:
    """How many crashes an episode has at most."""
    return services.EPISODE if number % WITH_SERVICES == 0 else EPISODE


def episode(seed: int, number: int, crashes: int) -> Iterator[Crash]:
    """Crash while users write, and see that it ends as if nothing had been."""
    random = Random(f"{seed} {number}")
    world = _world()
    if number % WITH_SERVICES == 0:
        yield from services.episode(world, random, number, crashes)
        return
    first = (number - 1 - number // WITH_SERVICES) * EPISODE
    with world.users(number):
        for card in deck.deal(VERBS, seed, first, min(crashes, EPISODE)):
            if card.verb == "upgrade":
                world.make_fresh()
            yield crash.make(world, card, VERBS[card.verb], random)
    world.assert_as_without_crashes()


def end() -> None:
    """Let the world go, which otherwise goes when the process ends."""
    world = _world()
    _world.cache_clear()
    atexit.unregister(world.close)
    world.close()


@cache
def _world() -> World:
    """The world of this process; it goes when the process ends."""
    servers = Servers("hq", "jfk")
    servers.prepare()
    world = World(servers)
    atexit.register(world.close)
    return world
