"""What came of a world that was played."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
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
    violations: list[Violation]
    story: str


#: Plays a world: on these servers, of a seed, of this number, with so many histories,
#: or of these with some of them only.
Play = Callable[[Ground, int, int, int, Set[int] | None], Played]


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A kind of worlds that can be played by the thousand."""

    name: str
    play: Play
    #: the shapes that its histories draw from
    shapes: frozenset[str]
    #: how many histories a world has
    each: int


class World(Protocol):
    """What can be played and judged."""

    @property
    def met(self) -> Mapping[int, set[str]]:
        """By history, the shapes that occurred in it."""

    def play(self) -> list[Violation]:
        """Play all histories, and judge them."""


def played(
    world: World, story: Story, *, number: int, kind: str, histories: int
) -> Played:
    """Play a world; whatever goes wrong in it, the others are played."""
    try:
        violations = world.play()
    except Exception:
        violations = [Violation(0, traceback.format_exc()[-3000:])]
    return Played(
        number=number,
        kind=kind,
        histories=histories,
        met=Counter(shape for seen in world.met.values() for shape in seen),
        violations=violations,
        story=str(story),
    )
