"""Prints headlines, sentences, tables, progress bars and times for the demo."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from snaptide.cli import output

#: The width in columns if the output is no terminal.
_WIDTH = 110


class Screen:
    """The output of the demo; tests and logs read it, too."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else _WIDTH
        self._console = Console(highlight=False, width=width)

    def headline(self, title: str) -> None:
        """Begin a step."""
        self._console.print()
        self._console.rule(Text(title, style="bold"), align="left", characters="─")

    def say(self, text: str) -> None:
        """Print a sentence, which may have markup."""
        self._console.print(text)

    def plain(self, text: str) -> None:
        """Print text that users copy: neither wrapped nor coloured."""
        self._console.print(text, markup=False, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table."""
        made = output.table(columns, rows)
        made.header_style = "dim"
        self._console.print(made)

    def seconds(self, seconds: float) -> None:
        """End a step, and print the seconds that it took."""
        self._console.print(f"[green]✓[/] [dim]{seconds:.1f} s[/]")
        # Flush, so that a reader at the end of a pipe sees the progress, too.
        sys.stdout.flush()

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[RowBar]:
        """Show a progress bar of rows while the block runs."""
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
    """A progress bar that adds up the rows of several tables.

    Called as `sites.Progress` is.
    """

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
