"""`snaptide schedule`: administers the schedules of a site."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from deferred import schedules
from deferred.schedules import Schedule
from sites import Site
from snaptide.cli.arguments import SiteArgument, named_value
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.queued import Queued
from snaptide.cli.verbs import Verbs

app = Verbs()


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
    program: Program,
    site: SiteArgument,
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
) -> None:
    """Schedule a push, refresh, purge or check, or change when it runs.

    Takes effect at once, without a restart.

    Example: snaptide schedule set jfk refresh airport --every "0 6 * * *"
    """
    options = {
        name.replace("-", "_"): value for name, value in map(named_value, option or [])
    }
    made = schedules.schedule(site, kind, subject, every=every, **options)
    _show(program, [made])


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List the schedules of a site.

    Example: snaptide schedule list jfk
    """
    _show(program, schedules.list_schedules(site))


@app.command()
def remove(
    program: Program,
    site: SiteArgument,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
) -> None:
    """Remove a schedule.

    Example: snaptide schedule remove jfk push hq
    """
    schedules.unschedule(site, kind, subject)
    _show(program, schedules.list_schedules(site))


@app.command()
def enable(
    program: Program,
    site: SiteArgument,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
) -> None:
    """Let a schedule run again.

    Example: snaptide schedule enable jfk push hq
    """
    _switch(program, site, kind, subject, enabled=True)


@app.command()
def disable(
    program: Program,
    site: SiteArgument,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
) -> None:
    """Pause a schedule.

    Example: snaptide schedule disable jfk push hq
    """
    _switch(program, site, kind, subject, enabled=False)


@app.command("run")
def run_(
    program: Program,
    site: SiteArgument,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
) -> None:
    """Have a worker run a schedule now, with its options.

    Needs a broker; also runs a schedule that is paused. Its next time stays as it is.

    Example: snaptide schedule run jfk refresh airport
    """
    # Import them late: Celery takes longer to load than most commands take to run.
    from snaptide import application, scheduled

    celery = application.celery_app(program.settings)
    number = scheduled.run_now(celery, site, kind, subject)
    show(program, Queued(task=kind, site=site.name, subject=subject, id=number))


def _switch(
    program: Program, site: Site, kind: str, subject: str, *, enabled: bool
) -> None:
    changed = schedules.enable_schedule(site, kind, subject, enabled=enabled)
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
