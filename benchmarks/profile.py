"""`make profile ONLY=refresh`: where the time of a benchmark goes.

Statements by their total time as the server logged them, Python by cProfile, and
Spark's stages from its event log. What is measured is slower than without: read
shares, not times.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import setting
from benchmarks.runs import BENCHMARKS, chosen
from snapshots.spark.session import stop

#: Lines of each table.
MOST = 20

_SHORT = 110

#: A statement of the server's log that took its time; the text goes on behind tabs.
_LINE = re.compile(
    r"LOG:  duration: (?P<ms>[\d.]+) ms  (?:statement|execute [^:]*): (?P<text>.*)"
)

_NUMBER = re.compile(r"\b\d+\b|'[^']*'")


def main(
    only: Annotated[str, typer.Option(help="Which benchmark.")],
    rows: Annotated[int | None, typer.Option(help="Rows.", min=100)] = None,
) -> None:
    """Run one benchmark, and show what it spent its time with."""
    run, usual = BENCHMARKS[chosen(only)]
    python = cProfile.Profile()
    with tempfile.TemporaryDirectory(prefix="snaptide-profile-") as folder:
        log = Path(folder) / "postgresql.log"
        setting.profile_to(log, Path(folder))
        python.runcall(run, rows or usual)
        stop()  # Spark completes its log
        console = Console(width=150)
        console.print(_statements(log))
        console.print(_stages(Path(folder)))
    pstats.Stats(python).sort_stats("cumulative").print_stats(MOST * 2)


def _statements(log: Path) -> Table:
    spent: dict[str, list[float]] = defaultdict(list)
    for milliseconds, statement in _logged(log):
        spent[_NUMBER.sub("?", " ".join(statement.split()))].append(milliseconds)
    table = Table("ms", "calls", "statement", title="Statements by total time")
    most = sorted(spent.items(), key=lambda one: -sum(one[1]))[:MOST]
    for statement, times in most:
        table.add_row(f"{sum(times):,.0f}", f"{len(times):,}", statement[:_SHORT])
    return table


def _logged(log: Path) -> Iterator[tuple[float, str]]:
    """Statements in the server's log, each with its milliseconds."""
    milliseconds, words = 0.0, ""
    for line in log.read_text("utf-8", "replace").splitlines():
        found = _LINE.search(line)
        if words and line.startswith("\t"):
            words += " " + line
            continue
        if words:
            yield milliseconds, words
        milliseconds, words = (
            (float(found["ms"]), found["text"]) if found else (0.0, "")
        )
    if words:
        yield milliseconds, words


def _stages(folder: Path) -> Table:
    """Spark's stages of the same name together, from the event log in a folder."""
    spent: dict[str, list[float]] = defaultdict(list)
    for path in folder.rglob("*"):
        if path.is_file() and path.name.startswith(("local-", "events_", "app-")):
            for name, seconds in _completed(path):
                spent[name].append(seconds)
    table = Table("ms", "stages", "", title="Spark's stages by total time")
    for name, times in sorted(spent.items(), key=lambda one: -sum(one[1]))[:MOST]:
        table.add_row(f"{1000 * sum(times):,.0f}", f"{len(times):,}", name[:_SHORT])
    return table


def _completed(path: Path) -> Iterator[tuple[str, float]]:
    for line in path.read_text("utf-8").splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerStageCompleted":
            stage = event["Stage Info"]
            took = stage["Completion Time"] - stage["Submission Time"]
            yield (
                f"{stage['Stage Name']} ({stage['Number of Tasks']} tasks)",
                took / 1e3,
            )


if __name__ == "__main__":
    typer.run(main)
