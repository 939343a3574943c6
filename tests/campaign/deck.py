"""In which order a campaign goes through all places and all that can die there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from tests.campaign.kinds import ANY_TIME
from tests.campaign.verbs import Verb

#: Crashes of a round that take a JVM with them: each costs many seconds.
COSTLY = 4

#: The verbs of a kind of campaign.
Verbs = Mapping[str, Verb]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One crash to be made."""

    verb: str
    point: str
    victim: str


def points(verbs: Verbs) -> list[str]:
    """All fault points of all verbs, each of them once."""
    return list(dict.fromkeys(p for verb in verbs.values() for p in verb.points))


def deal(verbs: Verbs, seed: int, first: int, count: int) -> list[Card]:
    """The cards from a place in the endless deck."""
    return list(islice(_endless(verbs, seed), first, first + count))


def _endless(verbs: Verbs, seed: int) -> Iterator[Card]:
    random = Random(seed)
    yield from _each_point_once(verbs, random)
    costly = cycle(_shuffled(random, _costly(verbs)))
    while True:
        cards = [*_shuffled(random, _cheap(verbs)), *islice(costly, COSTLY)]
        yield from _shuffled(random, cards)


def _shuffled(random: Random, cards: Iterable[Card]) -> list[Card]:
    found = list(cards)
    random.shuffle(found)
    return found


def _cheap(verbs: Verbs) -> Iterator[Card]:
    """Every place with every victim, but those after which a JVM has to start."""
    for name, verb in verbs.items():
        victims = [*_victims(verb), *([] if verb.spark else ["process"])]
        for point in (*verb.points, ANY_TIME):
            for victim in victims:
                yield Card(verb=name, point=point, victim=victim)


def _costly(verbs: Verbs) -> Iterator[Card]:
    for name, verb in verbs.items():
        if verb.spark:
            for point in (*verb.points, ANY_TIME):
                for victim in ("process", "jvm"):
                    yield Card(verb=name, point=point, victim=victim)


def _each_point_once(verbs: Verbs, random: Random) -> list[Card]:
    """So that a short campaign has been everywhere."""
    cards = [
        Card(verb=name, point=point, victim=random.choice(_victims(verb)))
        for name, verb in verbs.items()
        for point in verb.points
    ]
    random.shuffle(cards)
    return cards


def _victims(verb: Verb) -> list[str]:
    return [*verb.servers, "line"]
