"""`snaptide snapshot refreshes`: the last refreshes of a group, and what they did."""

from __future__ import annotations

from typing import Annotated

import typer

import snapshots
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.snapshot_held import GroupName
from snaptide.units import duration

COLUMNS = ["ended", "outcome", "methods", "times", "took", "steps"]
COLUMNS += ["inserted", "updated", "deleted", "held", "problem"]


def refreshes(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 20,
) -> None:
    """List the last refreshes of a refresh group, the latest first.

    A site keeps a hundred of a group. In a row, those that found nothing new, or
    failed with the same error, are one.

    Example: snaptide snapshot refreshes jfk airport
    """
    found = snapshots.list_refreshes(site, group, limit=limit)
    rows = [
        (
            one.ended_at,
            one.outcome,
            one.methods,
            one.refreshes,
            duration(one.seconds),
            {step: duration(seconds) for step, seconds in one.steps.items()},
            one.inserted,
            one.updated,
            one.deleted,
            one.held_back,
            one.error,
        )
        for one in found
    ]
    show(program, found, lambda: table(COLUMNS, rows))
