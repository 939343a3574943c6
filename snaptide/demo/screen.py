"""What the demo prints: headlines, sentences, tables, bars and seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from snaptide.cli import output

#: Columns of text when nobody's terminal says how many.
_WIDTH = 110


class Screen:
    """Where the demo is told; tests and logs read it too."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else _WIDTH
        self._console = Console(highlight=False, width=width)

    def headline(self, title: str) -> None:
        """Begin a step."""
        self._console.print()
        self._console.rule(Text(title, style="bold"), align="left", characters="─")

    def say(self, text: str) -> None:
        """A sentence; markup is understood."""
        self._console.print(text)

    def plain(self, text: str) -> None:
        """A line that is meant to be copied: neither wrapped nor coloured."""
        self._console.print(text, markup=False, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Figures."""
        made = output.table(columns, rows)
        made.header_style = "dim"
        self._console.print(made)

    def seconds(self, seconds: float) -> None:
        """End a step."""
        self._console.print(f"[green]✓[/] [dim]{seconds:.1f} s[/]")
        # Who reads it through a pipe wants to see where it is, too.
        sys.stdout.flush()

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[RowBar]:
        """A bar of rows that moves while the block runs."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:>9,.0f} of {task.total:,.0f} rows"),
            TextColumn("{task.fields[rate]}"),
        )
        with Progress(
            *columns,
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as bars:
            yield RowBar(bars, title, total)


class RowBar:
    """Counts rows over several tables, as `sites.activity.Progress` tells them."""

    def __init__(self, bars: Progress, title: str, total: int) -> None:
        self._bars = bars
        self._task = bars.add_task(title, total=total, rate="")
        self._before = self._last = 0

    def __call__(self, done: int, total: int | None, unit: str) -> None:
        if done < self._last:  # the next table begins
            self._before += self._last
        self._last = done
        rows = self._before + done
        elapsed = self._bars.tasks[self._task].elapsed or 0
        rate = f"{rows / elapsed:,.0f} rows/s" if elapsed else ""
        self._bars.update(self._task, completed=rows, rate=rate)
