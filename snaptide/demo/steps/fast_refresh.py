"""Step: fast refresh, which brings only the master's changes to the sites."""

from __future__ import annotations

import snapshots
from snapshots import RefreshReport
from snaptide.demo.cast import cast, value_of
from snaptide.demo.errors import require
from snaptide.demo.steps.define import GROUP
from snaptide.demo.steps.offline import PLANES
from snaptide.demo.world import World


def tell(world: World) -> None:
    """Refresh all airports, and check that the operator's decision arrives."""
    refresh_all(world)
    exchanged = cast(world, "jfk").exchanged
    found = value_of(world, "jfk", "tailnum", exchanged)
    require(found == PLANES[2], f"jfk still has {exchanged} flown by {found}.")


def refresh_all(world: World) -> None:
    """Refresh every airport fast, and show a table of the changes."""
    reports = [snapshots.refresh(site, GROUP) for site in world.airports]
    world.screen.table(
        [
            "site",
            "snapshot",
            "method",
            "keys compared",
            "inserted",
            "updated",
            "deleted",
            "seconds",
        ],
        [row for report in reports for row in _rows(report)],
    )
    for report in reports:
        for one in report.snapshots:
            require(one.method == "fast", f"{report.site}:{one.name} was {one.method}.")
            require(not one.held_back, f"{report.site}:{one.name} held rows back.")


def _rows(report: RefreshReport) -> list[list[object]]:
    """A line for each snapshot whose refresh compared keys."""
    return [
        [
            report.site,
            one.name,
            one.method,
            one.window_keys,
            one.inserted,
            one.updated,
            one.deleted,
            report.seconds,
        ]
        for one in report.snapshots
        if one.window_keys
    ]
