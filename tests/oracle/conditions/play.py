"""The worlds of conditions, and how one is made."""

from __future__ import annotations

from tests.oracle.conditions import schema, shapes
from tests.oracle.conditions.acts import Pen
from tests.oracle.conditions.world import ConditionsWorld
from tests.oracle.histories.world import SITES
from tests.oracle.runner.played import Game, Setting


def _make(setting: Setting) -> tuple[str, ConditionsWorld]:
    drawn = schema.draw(setting.chance)
    pens = {n: Pen(n, chance, drawn) for n, chance in setting.histories.items()}
    setting.story.tell("\n".join(s for table in drawn.tables for s in table.ddl()))
    databases = setting.ground.sites(dict.fromkeys(("hq", *SITES), "UTF8"))
    sites = setting.stack.enter_context(databases)
    made = ConditionsWorld(sites, setting.chance, pens, setting.story, drawn)
    return "conditions", made


GAME = Game(name="conditions", make=_make, shapes=shapes.ALL, each=60)
