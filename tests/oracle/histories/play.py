"""Plays the world of a number: seed and number say what it is like."""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import ExitStack
from random import Random

from tests.oracle.histories import group, tables
from tests.oracle.histories.acts import Pen
from tests.oracle.histories.columns import ColumnsWorld
from tests.oracle.histories.group import GroupWorld
from tests.oracle.histories.rows import RowsWorld
from tests.oracle.histories.world import World
from tests.oracle.runner.ground import Ground
from tests.oracle.runner.played import Played, played
from tests.oracle.story import Story


def world(
    ground: Ground,
    seed: int,
    number: int,
    histories: int,
    only: Set[int] | None = None,
) -> Played:
    """Play a world.

    Parameters:
        only: play only these of its histories.
    """
    chance, story = Random(f"{seed}:{number}"), Story()
    numbers = [n for n in range(1, histories + 1) if only is None or n in only]
    pens = {n: Pen(n, Random(f"{seed}:{number}:{n}")) for n in numbers}
    kind = _kind(number)
    make = _MAKERS[kind]
    with ExitStack() as stack:
        made = make(ground, stack, chance, pens, story)
        return played(made, story, number=number, kind=kind, histories=len(pens))


def _kind(number: int) -> str:
    """Of six worlds one is of columns, and one of masters."""
    if number % 6 == 3:
        return "columns"
    return "group" if number % 6 == 5 else "rows"


def _rows(
    ground: Ground,
    stack: ExitStack,
    chance: Random,
    pens: dict[int, Pen],
    story: Story,
) -> World:
    schema = tables.draw(chance)
    story.tell(f"{schema}")
    tricks = [
        *(["long"] if schema.width else ()),
        *(["odd"] if schema.encoding != "UTF8" else ()),
        *(["refused"] if "refuses" in schema.triggers else ()),
    ]
    for pen in pens.values():
        pen.tricks = tricks
    encodings = {"hq": schema.encoding, "jfk": "UTF8", "lga": "UTF8"}
    sites = stack.enter_context(ground.sites(encodings))
    return RowsWorld(sites, chance, pens, story, schema=schema)


def _columns(
    ground: Ground,
    stack: ExitStack,
    chance: Random,
    pens: dict[int, Pen],
    story: Story,
) -> World:
    encodings = dict.fromkeys(("hq", "jfk", "lga"), "UTF8")
    sites = stack.enter_context(ground.sites(encodings))
    return ColumnsWorld(sites, chance, pens, story)


def _group(
    ground: Ground,
    stack: ExitStack,
    chance: Random,
    pens: dict[int, Pen],
    story: Story,
) -> GroupWorld:
    encodings = dict.fromkeys((*group.MASTERS, *group.SITES), "UTF8")
    sites = stack.enter_context(ground.sites(encodings, with_clock=group.SITES))
    return GroupWorld(sites, chance, pens, story, ground.clock)


_Maker = Callable[
    [Ground, ExitStack, Random, dict[int, Pen], Story],
    World | GroupWorld,
]
_MAKERS: dict[str, _Maker] = {"rows": _rows, "columns": _columns, "group": _group}
