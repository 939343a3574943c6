"""`snaptide schedule`: administers the schedules of a site."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table

from deferred import schedules
from deferred.calendar import Calendar
from deferred.interval import BadInterval, next_times
from deferred.schedules import Schedule
from sites import Site
from snaptide.cli.arguments import SiteArgument, named_value
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.queued import Queued
from snaptide.cli.verbs import Verbs
from snaptide.errors import BadArgument

app = Verbs()

#: So many of the next runs are shown.
SHOWN = 5


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
    *,
    every: Annotated[
        str | None, typer.Option(help="10s, 5m, 2h, 1d, or five fields of cron in UTC.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="HH:MM", help="By a calendar: at this time.")
    ] = None,
    month: Annotated[
        str | None, typer.Option(help="Once a year, in this month: feb, or 2.")
    ] = None,
    day: Annotated[
        int | None,
        typer.Option(help="On this day of the month, or the last of a shorter one."),
    ] = None,
    weekday: Annotated[
        str | None, typer.Option(help="Once a week, on this day: sun.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="The time zone of --at, else UTC: Europe/Berlin.")
    ] = None,
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

    Takes effect at once, without a restart. A calendar runs it every day, or only on
    the days that --month, --day or --weekday name; a month without a day means its
    first, and beside a month or a day the weekday does not count.

    Example: snaptide schedule set jfk refresh airport --every "0 6 * * *"
    """
    dated = {"month": month, "day": day, "weekday": weekday, "zone": zone}
    when, calendar = _when(every, at, dated)
    options = {
        name.replace("-", "_"): value for name, value in map(named_value, option or [])
    }
    made = schedules.schedule(site, kind, subject, every=when, **options)
    if calendar is None:
        _show(program, [made])
    else:
        show(program, [made], lambda: _dated(made, calendar))


@app.command("next")
def next_(
    program: Program,
    site: SiteArgument,
    kind: KindName,
    subject: Subject = schedules.EVERYTHING,
    count: Annotated[int, typer.Option(min=1, max=1000, help="So many.")] = SHOWN,
) -> None:
    """List the next runs of a schedule, if it is not paused.

    Example: snaptide schedule next hq purge
    """
    found = schedules.next_runs(site, kind, subject, count=count)
    show(program, found, lambda: _times(found))


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


def _when(
    every: str | None, at: str | None, dated: Mapping[str, Any]
) -> tuple[str, Calendar | None]:
    """The interval that options ask for, and the calendar if it is one.

    Raises:
        BadArgument: there is none, there are two, or it has no time.
        BadInterval: the calendar names a day or time that does not exist.
    """
    is_dated = any(value is not None for value in dated.values())
    if every is not None and (at is not None or is_dated):
        raise BadArgument("Give --every, or a calendar with --at; not both.")
    if every is not None:
        return every, None
    if at is None:
        why = "" if is_dated else "--every, or "
        raise BadArgument(
            f"Say when: {why}--at HH:MM. Without a time nothing would ever run; "
            "snaptide schedule disable pauses a schedule."
        )
    try:
        calendar = Calendar.given(at=at, **dated)
    except ValueError as error:
        raise BadInterval(f"This is no calendar: {error}.") from None
    return str(calendar), calendar


def _dated(made: Schedule, calendar: Calendar) -> Group:
    """A schedule by a calendar, with its next runs."""
    found = next_times(made.interval, made.next_at, SHOWN)
    lines = [""]
    if calendar.leaves_weekday_out:
        lines.append("The weekday does not count beside a month or a day.")
    return Group(_table([made]), *lines, _times(found))


def _times(found: list[datetime]) -> Table:
    return table(["next runs (local time)"], [[one] for one in found])


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
