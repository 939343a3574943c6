"""A kind of worlds, how one of them is played, and what came of it."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Protocol

from tests.oracle.runner.ground import Ground
from tests.oracle.story import Story


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that nobody was told of; history 0 is all of a world."""

    history: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A world that was played, and what came of it."""

    number: int
    kind: str
    histories: int
    #: in how many histories each shape occurred
    met: Counter[str]
    #: how often things happened that its story counts
    counts: Counter[str]
    violations: list[Violation]
    story: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a world is made of: seed and number say all that is drawn in it."""

    ground: Ground
    #: what the world leaves open until it was played
    stack: ExitStack
    number: int
    #: draws what concerns all histories
    chance: Random
    #: by history, what draws for it alone
    histories: Mapping[int, Random]
    story: Story


class World(Protocol):
    """What can be played and judged."""

    @property
    def met(self) -> Mapping[int, set[str]]:
        """By history, the shapes that occurred in it."""

    def play(self) -> list[Violation]:
        """Play all histories, and judge them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A kind of worlds that can be played by the thousand."""

    name: str
    #: makes a world, and says of which kind it is
    make: Callable[[Setting], tuple[str, World]]
    #: the shapes that its histories draw from
    shapes: frozenset[str]
    #: how many histories a world has
    each: int
    #: what a history is called where they are asked for
    counted: str = "histories"
    #: says in a line what its stories have counted
    told: Callable[[Mapping[str, int]], str] | None = None


def play(
    game: Game,
    ground: Ground,
    seed: int,
    number: int,
    histories: int,
    only: Set[int] | None = None,
) -> Played:
    """Play a world; whatever goes wrong in it, the others are played.

    Parameters:
        only: play only these of its histories.
    """
    story = Story()
    numbers = [n for n in range(1, histories + 1) if only is None or n in only]
    with ExitStack() as stack:
        kind, world = game.make(
            Setting(
                ground=ground,
                stack=stack,
                number=number,
                chance=Random(f"{seed}:{number}"),
                histories={n: Random(f"{seed}:{number}:{n}") for n in numbers},
                story=story,
            )
        )
        try:
            violations = world.play()
        except Exception:
            violations = [Violation(0, traceback.format_exc()[-10_000:])]
    return Played(
        number=number,
        kind=kind,
        histories=len(numbers),
        met=Counter(shape for seen in world.met.values() for shape in seen),
        counts=story.counts,
        violations=violations,
        story=str(story),
    )
