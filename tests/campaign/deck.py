"""In which order a campaign goes through all places and all that can die there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

from tests.campaign.kinds import ANY_TIME
from tests.campaign.verbs import VERBS

#: Which servers a verb has to do with; those that are not here: both.
_SERVERS = {
    "create log": ("master",),
    "drop log": ("master",),
    "purge logs": ("master",),
    "retry": ("master",),
    "purge queue": ("site",),
    "upgrade": ("site",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One crash to be made."""

    verb: str
    point: str
    victim: str


def points() -> list[str]:
    """All fault points of all verbs."""
    return [point for verb in VERBS.values() for point in verb.points]


def deal(seed: int, first: int, count: int) -> list[Card]:
    """The cards from a place in the endless deck; each round has every card once."""
    return list(islice(_endless(seed), first, first + count))


def _endless(seed: int) -> Iterator[Card]:
    random = Random(seed)
    yield from _each_point_once(random)
    first = True
    while True:
        cards = list(_all(costly=first))
        random.shuffle(cards)
        yield from cards
        first = False


def _all(*, costly: bool) -> Iterator[Card]:
    """Every place with every victim.

    Parameters:
        costly: with those after which a JVM has to be started: ten seconds of work.
    """
    for name, verb in VERBS.items():
        for point in (*verb.points, ANY_TIME):
            victims = _victims(name)
            if costly or not verb.spark:
                victims.append("process")
            if costly and verb.spark:
                victims.append("jvm")
            for victim in victims:
                yield Card(verb=name, point=point, victim=victim)


def _each_point_once(random: Random) -> list[Card]:
    """So that a short campaign has been everywhere."""
    cards = [
        Card(verb=name, point=point, victim=random.choice(_victims(name)))
        for name, verb in VERBS.items()
        for point in verb.points
    ]
    random.shuffle(cards)
    return cards


def _victims(verb: str) -> list[str]:
    return [*_SERVERS.get(verb, ("master", "site")), "line"]
