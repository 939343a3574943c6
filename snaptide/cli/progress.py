"""Shows progress bars on the error output, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from sites import Progress, Site
from sites.sessions import activity
from snaptide.cli.program import Program


class Bar:
    """The progress bar of one piece of work; called as `sites.Progress` is."""

    def __init__(self, bars: Bars, title: str) -> None:
        self._bars = bars
        self._task = bars.add_task(title, total=None, unit="")
        self._speed = activity.Speed()

    def __call__(self, done: int, total: int | None, unit: str) -> None:
        rate = self._speed.per_second(done, unit)
        shown = f"{unit}, {rate:,.0f}/s" if rate else unit
        self._bars.update(self._task, completed=done, total=total, unit=shown)


#: Opens a context for the work on one subject; the work reports its progress to it.
Shown = Callable[[str], AbstractContextManager[Progress]]


@contextmanager
def working(program: Program, site: Site, kind: str) -> Iterator[Shown]:
    """Show long work here and in `snaptide status`, with a bar for each subject."""
    with _bars(program) as bar:
        yield lambda subject: activity.report(
            site, kind, subject, also=bar(f"{kind} {site.name} {subject}")
        )


@contextmanager
def bar(program: Program, title: str) -> Iterator[Bar | None]:
    """Show one piece of work here while the block runs."""
    with _bars(program) as made:
        yield made(title)


@contextmanager
def _bars(program: Program) -> Iterator[Callable[[str], Bar | None]]:
    """Make bars by their titles; None if the output is JSON or no terminal."""
    if program.json or not sys.stderr.isatty():
        yield lambda title: None
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
        yield lambda title: Bar(bars, title)
