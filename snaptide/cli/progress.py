"""A progress bar on the error output, for people only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from sites import Site, activity
from snaptide.cli.program import Program


class Bar:
    """Shows one piece of work as `sites.activity.Progress` tells it."""

    def __init__(self, bars: Bars, title: str) -> None:
        self._bars = bars
        self._task = bars.add_task(title, total=None, unit="")
        self._speed = activity.Speed()

    def __call__(self, done: int, total: int | None, unit: str) -> None:
        rate = self._speed.per_second(done, unit)
        shown = f"{unit}, {rate:,.0f}/s" if rate else unit
        self._bars.update(self._task, completed=done, total=total, unit=shown)


@contextmanager
def working(
    program: Program, site: Site, kind: str, subject: str
) -> Iterator[activity.Progress]:
    """Show long work here, and in `snaptide status`, while the block runs."""
    with (
        bar(program, f"{kind} {site.name} {subject}") as shown,
        activity.report(site, kind, subject, also=shown) as progress,
    ):
        yield progress


@contextmanager
def bar(program: Program, title: str) -> Iterator[Bar | None]:
    """Show work here while the block runs; None when nobody would see it."""
    if program.json or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Bar(bars, title)
