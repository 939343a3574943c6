"""Step: defines snapshot logs, resolution rules and snapshots, all from one file."""

from __future__ import annotations

from importlib.resources import files

from snaptide import plan
from snaptide.demo.world import World
from snaptide.plan.steps import RefreshGroup

#: The refresh group of each airport.
GROUP = "airport"

UPDATABLE = ("flights", "weather")

_FILE = "airport.toml"


def tell(world: World) -> None:
    """Do what the file says, but for the refresh: no rows are copied yet."""
    file = world.folder / _FILE
    file.write_bytes(files("snaptide.demo").joinpath(_FILE).read_bytes())
    first, *others = world.airports
    world.command("plan", str(file), "--set", f"site={first.name}", ends_with=3)
    for site in (first, *others):
        described = plan.read(file, {"site": site.name})
        for step in plan.plan(world.sites, described).steps:
            if not isinstance(step, RefreshGroup):
                step.run(world.sites)
    names = ", ".join(site.name for site in others)
    world.screen.say(f"\nThe same file, with another site, is for {names}.")
