"""`snaptide schedule`: administers the schedules of a site."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from deferred import schedules
from deferred.schedules import Schedule
from snaptide.cli.arguments import Json, SiteName, named_value
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program
from snaptide.cli.queued import Queued

app = typer.Typer()


class Kind(StrEnum):
    """The kinds of work that a schedule can run."""

    PUSH = "push"
    REFRESH = "refresh"
    PURGE = "purge"
    CHECK = "check"


KindName = Annotated[Kind, typer.Argument(metavar="push|refresh|purge|check")]
Subject = Annotated[
    str,
    typer.Argument(metavar="[SUBJECT]", help="A destination, a refresh group, or *."),
]


@app.command("set")
def set_(
    ctx: typer.Context,
    site: SiteName,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
    every: Annotated[
        str, typer.Option(help="10s, 5m, 2h, 1d, or five fields of cron in UTC.")
    ] = ...,  # type: ignore[assignment]
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="An option of the push, refresh, purge or check.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Schedule a push, refresh, purge or check, or change when it runs.

    Takes effect at once, without a restart.

    Example: snaptide schedule set jfk refresh airport --every "0 6 * * *"
    """
    program = Program.of(ctx)
    options = {
        name.replace("-", "_"): value for name, value in map(named_value, option or [])
    }
    made = schedules.schedule(program.site(site), kind, subject, every=every, **options)
    _show(program, [made])


@app.command("list")
def list_(ctx: typer.Context, site: SiteName, json: Json = False) -> None:
    """List the schedules of a site.

    Example: snaptide schedule list jfk
    """
    program = Program.of(ctx)
    _show(program, schedules.list_schedules(program.site(site)))


@app.command()
def remove(
    ctx: typer.Context,
    site: SiteName,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
    json: Json = False,
) -> None:
    """Remove a schedule.

    Example: snaptide schedule remove jfk push hq
    """
    program = Program.of(ctx)
    schedules.unschedule(program.site(site), kind, subject)
    _show(program, schedules.list_schedules(program.site(site)))


@app.command()
def enable(
    ctx: typer.Context,
    site: SiteName,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
    json: Json = False,
) -> None:
    """Let a schedule run again.

    Example: snaptide schedule enable jfk push hq
    """
    _switch(ctx, site, kind, subject, enabled=True)


@app.command()
def disable(
    ctx: typer.Context,
    site: SiteName,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
    json: Json = False,
) -> None:
    """Pause a schedule.

    Example: snaptide schedule disable jfk push hq
    """
    _switch(ctx, site, kind, subject, enabled=False)


@app.command("run")
def run_(
    ctx: typer.Context,
    site: SiteName,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
    json: Json = False,
) -> None:
    """Have a worker run a schedule now, with its options.

    Needs a broker; also runs a schedule that is paused. Its next time stays as it is.

    Example: snaptide schedule run jfk refresh airport
    """
    # Import them late: Celery takes longer to load than most commands take to run.
    from snaptide import application, scheduled

    program = Program.of(ctx)
    celery = application.celery_app(program.settings)
    chosen = program.site(site)
    number = scheduled.run_now(celery, chosen, kind, subject)
    report = Queued(task=kind, site=chosen.name, subject=subject, id=number)
    show(program, report, lambda: facts(report))


def _switch(
    ctx: typer.Context, site: str, kind: str, subject: str, *, enabled: bool
) -> None:
    program = Program.of(ctx)
    changed = schedules.enable_schedule(
        program.site(site), kind, subject, enabled=enabled
    )
    _show(program, [changed])


def _show(program: Program, found: list[Schedule]) -> None:
    show(program, found, lambda: _table(found))


def _table(found: list[Schedule]) -> Table:
    columns = ["kind", "of", "every", "next (local time)", "last", "paused", "error"]
    rows = [
        (s.kind, s.subject, s.interval, s.next_at, s.last_at, s.disabled, s.last_error)
        for s in found
    ]
    return table(columns, rows)
