"""`snaptide push`: sends a site's queue to its destinations."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

import deferred
from deferred.options import MOST_STREAMS, ErrorAction, Options
from deferred.queues.backlog import set_disabled
from snaptide.cli.arguments import Json, SiteName, complete_site
from snaptide.cli.failures import ExitCode
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.cli.queued import hand_over
from snaptide.errors import BadArgument
from snaptide.interrupt import interruptible

COLUMNS = ["to", "transactions", "calls", "resolved", "parked", "seconds", ""]


def push(
    ctx: typer.Context,
    site: SiteName,
    destination: Annotated[
        str | None,
        typer.Argument(
            metavar="[DESTINATION]", help="Else all.", autocompletion=complete_site
        ),
    ] = None,
    stop_on_error: Annotated[
        bool,
        typer.Option("--stop-on-error", help="Stop at the first parked transaction."),
    ] = False,
    transaction_count: Annotated[
        int, typer.Option(min=0, help="Stop after this many; 0: no limit.")
    ] = 0,
    execution_seconds: Annotated[
        float, typer.Option(min=0, help="Stop after this many; 0: no limit.")
    ] = 0,
    delay_seconds: Annotated[
        float, typer.Option(min=0, help="Wait this long for more work.")
    ] = 0,
    batch_size: Annotated[
        int, typer.Option(min=0, help="Calls per commit; 0: by groups.")
    ] = 0,
    group_max_calls: Annotated[
        int | None, typer.Option(min=0, help="Most calls per group; 1: one by one.")
    ] = None,
    group_max_bytes: Annotated[
        int | None, typer.Option(min=0, help="Most bytes of values per group; 0: any.")
    ] = None,
    bulk_threshold: Annotated[
        int | None, typer.Option(min=0, help="Use COPY from this many rows on.")
    ] = None,
    retry_threshold: Annotated[
        int | None, typer.Option(min=0, help="Apply smaller failed groups one by one.")
    ] = None,
    error_action: Annotated[
        ErrorAction | None,
        typer.Option(help="What to do with a failed transaction."),
    ] = None,
    error_limit: Annotated[
        int | None,
        typer.Option(min=0, help="Pause all pushes at this many parked; 0: never."),
    ] = None,
    one_by_one: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="Never apply in groups; may be repeated."),
    ] = None,
    parallelism: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST_STREAMS, help="Parallel streams per destination; 0: serial."
        ),
    ] = None,
    enable: Annotated[
        bool | None,
        typer.Option(
            "--enable/--disable", help="Only let pushes go on, or pause them."
        ),
    ] = None,
    enqueue: Annotated[
        bool, typer.Option("--enqueue", help="Let a worker run it.")
    ] = False,
    json: Json = False,
) -> None:
    """Push a site's deferred transactions; ends with 3 if some were parked.

    Without a destination it pushes to all of them at the same time.

    Example: snaptide push jfk hq --transaction-count 1000
    """
    program = Program.of(ctx)
    if enable is not None:
        _switch(program, site, destination, enabled=enable)
        return
    options = _given(ctx)
    if enqueue:
        hand_over(program, "push", site, destination, **options)
        return
    chosen = program.site(site)
    names = [destination] if destination else None
    with working(program, chosen, "push") as shown, interruptible() as stop:
        pushes = deferred.push_all(chosen, names, shown=shown, stop=stop, **options)
    reports = pushes.reports
    if reports or not pushes.errors:
        show(program, reports, lambda: table(COLUMNS, map(_row, reports)))
    pushes.raise_first()
    if any(report.errors for report in reports):
        raise typer.Exit(ExitCode.ATTENTION)


def _given(ctx: typer.Context) -> dict[str, Any]:
    """The push options that the user gave; snaptide.toml decides the others.

    Command line, settings and `Options` have the same names for them.
    """
    said = {one.name: ctx.params[one.name] for one in fields(Options)}
    return {name: value for name, value in said.items() if value not in (None, ())}


def _switch(
    program: Program, site: str, destination: str | None, *, enabled: bool
) -> None:
    if destination is None:
        raise BadArgument("Name the destination.")
    changed = set_disabled(program.site(site), destination, disabled=not enabled)
    show(program, changed, lambda: facts(changed))


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
