"""`make bench`: run the benchmarks, show a table, keep the figures as JSON."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import report
from benchmarks.pairs import Result
from benchmarks.runs import BENCHMARKS, ON_REQUEST, chosen


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
    before = report.read(against) if against else {}
    results: list[Result] = []
    began = time.monotonic()
    every = [name for name in BENCHMARKS if name not in ON_REQUEST]
    for name in [chosen(only)] if only else every:
        results += _alone(name, rows)
        report.keep(results, output)
        typer.echo(f"{name}: done {time.monotonic() - began:.0f} s after the start")
    report.show(results, before)


def _alone(name: str, rows: int | None) -> list[Result]:
    """Run one in a process of its own, which has one Spark session and one heap."""
    run, usual = BENCHMARKS[name]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(run, rows or usual).result()


if __name__ == "__main__":
    typer.run(main)
