"""`make bench`: run the benchmarks, show a table, keep the figures as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import capture, conflicts, load, push, refresh, report, streams, sync
from benchmarks.pairs import Result

#: What runs, and with how many rows unless told.
BENCHMARKS: dict[str, tuple[Callable[[int], list[Result]], int]] = {
    "capture": (capture.run, 1_000_000),
    "conflicts": (conflicts.run, 10_000),
    "load": (load.run, 1_000_000),
    "push": (push.run, 100_000),
    "refresh": (refresh.run, 1_000_000),
    "streams": (streams.run, 500),
    "sync": (sync.run, 500),
}


def main(
    only: Annotated[str, typer.Option(help="Run just this one.")] = "",
    rows: Annotated[
        int | None, typer.Option(help="Rows of the table.", min=100)
    ] = None,
    output: Annotated[Path, typer.Option(help="Where to keep the figures.")] = Path(
        "benchmarks.json"
    ),
    against: Annotated[
        Path | None, typer.Option(help="Figures of an earlier run to compare with.")
    ] = None,
) -> None:
    """Measure ratios against a limit of the same run."""
    if only and only not in BENCHMARKS:
        raise typer.BadParameter(f"{only}: one of {', '.join(BENCHMARKS)}")
    before = report.read(against) if against else {}
    results: list[Result] = []
    for name in [only] if only else BENCHMARKS:
        run, usual = BENCHMARKS[name]
        results += run(rows or usual)
        report.keep(results, output)
    report.show(results, before)


if __name__ == "__main__":
    typer.run(main)
