"""The worlds of checks, and how one is made."""

from __future__ import annotations

from collections.abc import Mapping

import snapshots
from tests.oracle.checks import plants, world
from tests.oracle.checks.world import ChecksWorld
from tests.oracle.conditions import schema
from tests.oracle.conditions.acts import Pen
from tests.oracle.histories.world import SITES
from tests.oracle.runner.played import Game, Setting

SHAPES = frozenset(
    {
        *(f"planted: {name}" for name in plants.PLANTS),
        *(f"explained: {one.value}" for one in snapshots.Reason),
        *(f"checked: {name}" for name in world.WAYS),
        *("parked", "resolved", "held back", "updatable"),
    }
) - {f"explained: {snapshots.Reason.UNEXPLAINED.value}"}


def _told(counts: Mapping[str, int]) -> str:
    pushed, conflicts = counts.get(world.PUSHED, 0), counts.get(world.CONFLICTS, 0)
    share = conflicts / pushed if pushed else 0.0
    return (
        f"{counts.get(world.ROWS, 0)} planted; {pushed} transactions pushed,"
        f" {conflicts} of them ({share:.1%}) in conflict"
    )


def _make(setting: Setting) -> tuple[str, ChecksWorld]:
    drawn = schema.draw(setting.chance)
    pens = {n: Pen(n, chance, drawn) for n, chance in setting.histories.items()}
    databases = setting.ground.sites(dict.fromkeys(("hq", *SITES), "UTF8"))
    sites = setting.stack.enter_context(databases)
    return "checks", ChecksWorld(sites, setting.chance, pens, setting.story, drawn)


GAME = Game(
    name="checks", make=_make, shapes=SHAPES, each=25, counted="runs", told=_told
)
