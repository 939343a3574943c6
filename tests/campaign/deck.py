"""In which order a campaign goes through all places and all that can die there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from tests.campaign.kinds import ANY_TIME
from tests.campaign.verbs import VERBS

#: Crashes of a round that take a JVM with them: each costs many seconds.
COSTLY = 4

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
    """The cards from a place in the endless deck."""
    return list(islice(_endless(seed), first, first + count))


def _endless(seed: int) -> Iterator[Card]:
    random = Random(seed)
    yield from _each_point_once(random)
    costly = cycle(_shuffled(random, _costly()))
    while True:
        cards = [*_shuffled(random, _cheap()), *islice(costly, COSTLY)]
        yield from _shuffled(random, cards)


def _shuffled(random: Random, cards: Iterable[Card]) -> list[Card]:
    found = list(cards)
    random.shuffle(found)
    return found


def _cheap() -> Iterator[Card]:
    """Every place with every victim, but those after which a JVM has to start."""
    for name, verb in VERBS.items():
        victims = [*_victims(name), *([] if verb.spark else ["process"])]
        for point in (*verb.points, ANY_TIME):
            for victim in victims:
                yield Card(verb=name, point=point, victim=victim)


def _costly() -> Iterator[Card]:
    for name, verb in VERBS.items():
        if verb.spark:
            for point in (*verb.points, ANY_TIME):
                for victim in ("process", "jvm"):
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
