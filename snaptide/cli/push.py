"""`snaptide push`: sends a site's queue to its destinations."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import deferred
from deferred.options import PushOptions, PushSettings
from deferred.queues.backlog import set_disabled
from sites import Site
from snaptide.cli.arguments import SiteArgument, complete_site
from snaptide.cli.failures import end_if
from snaptide.cli.options import takes
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.cli.queued import hand_over
from snaptide.errors import BadArgument
from snaptide.interrupt import interruptible

COLUMNS = ["to", "transactions", "calls", "resolved", "parked", "seconds", ""]


@takes(PushOptions, settings=PushSettings)
def push(
    program: Program,
    site: SiteArgument,
    destination: Annotated[
        str | None,
        typer.Argument(
            metavar="[DESTINATION]", help="Else all.", autocompletion=complete_site
        ),
    ] = None,
    *,
    enable: Annotated[
        bool | None,
        typer.Option(
            "--enable/--disable", help="Only let pushes go on, or pause them."
        ),
    ] = None,
    enqueue: Annotated[
        bool, typer.Option("--enqueue", help="Let a worker run it.")
    ] = False,
    **options: Any,
) -> None:
    """Push a site's deferred transactions; ends with 3 if some were parked.

    Without a destination it pushes to all of them at the same time.

    Example: snaptide push jfk hq --transaction-count 1000
    """
    if enable is not None:
        _switch(program, site, destination, enabled=enable)
        return
    if enqueue:
        hand_over(program, "push", site.name, destination, **options)
        return
    names = [destination] if destination else None
    with working(program, site, "push") as shown, interruptible() as stop:
        pushes = deferred.push_all(site, names, shown=shown, stop=stop, **options)
    reports = pushes.reports
    if reports or not pushes.errors:
        show(program, reports, lambda: table(COLUMNS, map(_row, reports)))
    pushes.raise_first()
    end_if(attention=any(report.errors for report in reports))


def _switch(
    program: Program, site: Site, destination: str | None, *, enabled: bool
) -> None:
    if destination is None:
        raise BadArgument("Name the destination.")
    show(program, set_disabled(site, destination, disabled=not enabled))


def _row(report: deferred.PushReport) -> tuple[object, ...]:
    return (
        report.destination,
        report.transactions,
        report.calls,
        report.conflicts_resolved,
        report.errors,
        report.seconds,
        _note(report),
    )


def _note(report: deferred.PushReport) -> str:
    if report.another_pusher:
        return "another push is running"
    held = report.held_back
    return f"{held} held back, because their group is quiet there" if held else ""
