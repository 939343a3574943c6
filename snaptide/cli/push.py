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
        typer.Option(
            "--stop-on-error", help="End at the first transaction that is parked."
        ),
    ] = False,
    transaction_count: Annotated[
        int, typer.Option(min=0, help="End after so many transactions.")
    ] = 0,
    execution_seconds: Annotated[
        float, typer.Option(min=0, help="End after so many seconds.")
    ] = 0,
    delay_seconds: Annotated[
        float, typer.Option(min=0, help="Wait so long for more before ending.")
    ] = 0,
    batch_size: Annotated[
        int, typer.Option(min=0, help="Calls per commit at the destination.")
    ] = 0,
    group_max_calls: Annotated[
        int | None, typer.Option(min=0, help="Calls per group; 1: one by one.")
    ] = None,
    group_max_bytes: Annotated[
        int | None, typer.Option(min=0, help="Bytes of values per group; 0: any.")
    ] = None,
    bulk_threshold: Annotated[
        int | None, typer.Option(min=0, help="Rows from which on COPY is used.")
    ] = None,
    retry_threshold: Annotated[
        int | None, typer.Option(min=0, help="A smaller failed group goes one by one.")
    ] = None,
    error_action: Annotated[
        ErrorAction | None,
        typer.Option(help="Park what cannot be applied, or stop there."),
    ] = None,
    error_limit: Annotated[
        int | None,
        typer.Option(min=0, help="Parked so many, pause all pushes; 0: never."),
    ] = None,
    one_by_one: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="Never in groups; may be repeated."),
    ] = None,
    parallelism: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST_STREAMS, help="Streams to a destination; 0: serial."
        ),
    ] = None,
    enable: Annotated[
        bool | None,
        typer.Option(
            "--enable/--disable", help="Only let pushes go on, or pause them."
        ),
    ] = None,
    enqueue: Annotated[
        bool, typer.Option("--enqueue", help="Let a worker do it.")
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
        raise BadArgument("Say which destination.")
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
        return "another push is at work"
    held = report.held_back
    return f"{held} held back: their group is quiet there" if held else ""
