"""Step: refreshes once more, then compares every snapshot with its master."""

from __future__ import annotations

import snapshots
from snaptide.demo import check
from snaptide.demo.errors import require
from snaptide.demo.steps.fast_refresh import refresh_all
from snaptide.demo.world import World


def tell(world: World) -> None:
    """Show that every snapshot equals its defining query, and all work is settled."""
    refresh_all(world)
    reports = [snapshots.check(site) for site in world.airports]
    compared = [(report.site, one) for report in reports for one in report.snapshots]
    world.screen.say("")
    world.screen.table(
        ["site", "snapshot", "rows", "rows at hq", "equal"],
        [
            (site, one.name, one.rows_here, one.rows_master, one.equal)
            for site, one in compared
        ],
    )
    different = [f"{site}:{one.name}" for site, one in compared if not one.equal]
    require(not different, f"Different from hq: {', '.join(different)}.")
    left = check.left_over(world.airports, world.hq)
    require(not left, f"Not settled: {'; '.join(left)}.")
    world.screen.say("All equal. Nothing is queued, held back or parked.")
