"""Plays the world of a number: seed and number say what it is like."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Set
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

from tests.oracle.histories import acts, group, shapes, tables
from tests.oracle.histories.acts import Pen
from tests.oracle.histories.columns import ALTERED, ColumnsWorld
from tests.oracle.histories.ground import Ground
from tests.oracle.histories.group import GroupWorld
from tests.oracle.histories.judge import Violation
from tests.oracle.histories.rows import RowsWorld
from tests.oracle.histories.world import World
from tests.oracle.story import Story


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


def world(
    ground: Ground,
    seed: int,
    number: int,
    histories: int,
    only: Set[int] | None = None,
    drawn: frozenset[str] = shapes.ALL,
) -> Played:
    """Play a world.

    Parameters:
        only: play only these of its histories.
        drawn: the shapes that are drawn.
    """
    chance, story = Random(f"{seed}:{number}"), Story()
    numbers = [n for n in range(1, histories + 1) if only is None or n in only]
    pens = {n: Pen(n, Random(f"{seed}:{number}:{n}")) for n in numbers}
    kind = _kind(number, drawn)
    make = _MAKERS[kind]
    with ExitStack() as stack:
        made = make(ground, stack, chance, pens, story, drawn)
        try:
            violations = made.play()
        except Exception:  # whatever it is, the others are played
            violations = [Violation(0, traceback.format_exc()[-3000:])]
        met = Counter(shape for seen in made.met.values() for shape in seen)
    return Played(
        number=number,
        kind=kind,
        histories=len(pens),
        met=met,
        violations=violations,
        story=str(story),
    )


def _kind(number: int, drawn: frozenset[str]) -> str:
    """Of six worlds one is of columns, and one of masters."""
    if number % 6 == 3 and drawn & set(ALTERED):
        return "columns"
    return "group" if number % 6 == 5 and drawn & group.SHAPES else "rows"


def _rows(
    ground: Ground,
    stack: ExitStack,
    chance: Random,
    pens: dict[int, Pen],
    story: Story,
    drawn: frozenset[str],
) -> World:
    schema = tables.draw(chance, shapes=drawn)
    story.tell(f"{schema}")
    tricks = [
        *(["long"] if schema.width else ()),
        *(["odd"] if schema.encoding != "UTF8" else ()),
        *(["refused"] if "refuses" in schema.triggers else ()),
    ]
    for pen in pens.values():
        pen.tricks = tricks
        pen.acts = acts.known(drawn)
    encodings = {"hq": schema.encoding, "jfk": "UTF8", "lga": "UTF8"}
    sites = stack.enter_context(ground.sites(encodings))
    return RowsWorld(sites, chance, pens, story, schema=schema)


def _columns(
    ground: Ground,
    stack: ExitStack,
    chance: Random,
    pens: dict[int, Pen],
    story: Story,
    drawn: frozenset[str],
) -> World:
    encodings = dict.fromkeys(("hq", "jfk", "lga"), "UTF8")
    sites = stack.enter_context(ground.sites(encodings))
    return ColumnsWorld(sites, chance, pens, story, shapes=drawn)


def _group(
    ground: Ground,
    stack: ExitStack,
    chance: Random,
    pens: dict[int, Pen],
    story: Story,
    drawn: frozenset[str],
) -> GroupWorld:
    encodings = dict.fromkeys((*group.MASTERS, *group.SITES), "UTF8")
    sites = stack.enter_context(ground.sites(encodings, with_clock=group.SITES))
    return GroupWorld(sites, chance, pens, story, ground.clock, drawn)


_Maker = Callable[
    [Ground, ExitStack, Random, dict[int, Pen], Story, frozenset[str]],
    World | GroupWorld,
]
_MAKERS: dict[str, _Maker] = {"rows": _rows, "columns": _columns, "group": _group}
