"""Plays the world of a number: seed and number say what it is like."""

from __future__ import annotations

from collections.abc import Set
from random import Random

from tests.oracle.conditions import schema
from tests.oracle.conditions.acts import Pen
from tests.oracle.conditions.world import ConditionsWorld
from tests.oracle.histories.world import SITES
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
    drawn = schema.draw(chance)
    numbers = [n for n in range(1, histories + 1) if only is None or n in only]
    pens = {n: Pen(n, Random(f"{seed}:{number}:{n}"), drawn) for n in numbers}
    story.tell("\n".join(s for table in drawn.tables for s in table.ddl()))
    with ground.sites(dict.fromkeys(("hq", *SITES), "UTF8")) as sites:
        made = ConditionsWorld(sites, chance, pens, story, drawn)
        return played(
            made, story, number=number, kind="conditions", histories=len(pens)
        )
