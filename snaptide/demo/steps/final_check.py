"""Step: refreshes once more, then compares every snapshot with its master."""

from __future__ import annotations

from snaptide.demo import check
from snaptide.demo.errors import require
from snaptide.demo.steps.fast_refresh import refresh_all
from snaptide.demo.world import World


def tell(world: World) -> None:
    """Show that every snapshot equals its defining query, and all work is settled."""
    refresh_all(world)
    compared = [one for site in world.airports for one in check.compare(site)]
    world.screen.say("")
    world.screen.table(
        ["site", "snapshot", "rows", "rows at hq", "sha256", "sha256 at hq", "equal"],
        [
            (
                one.site,
                one.snapshot,
                one.here.rows,
                one.master.rows,
                one.here.digest[:12],
                one.master.digest[:12],
                one.equal,
            )
            for one in compared
        ],
    )
    different = [f"{one.site}:{one.snapshot}" for one in compared if not one.equal]
    require(not different, f"Different from hq: {', '.join(different)}.")
    left = check.left_over(world.airports, world.hq)
    require(not left, f"Not settled: {'; '.join(left)}.")
    world.screen.say("All equal. Nothing is queued, held back or parked.")
