"""`make bench`: run the benchmarks, show a table, keep the figures as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import capture, push, refresh
from benchmarks.pairs import Result

BENCHMARKS: dict[str, Callable[[int], list[Result]]] = {
    "capture": capture.run,
    "push": push.run,
    "refresh": refresh.run,
}


def main(
    only: Annotated[str, typer.Option(help="Run just this one.")] = "",
    rows: Annotated[int, typer.Option(help="Rows of the table.", min=100)] = 100_000,
    output: Annotated[Path, typer.Option(help="Where to keep the figures.")] = Path(
        "benchmarks.json"
    ),
) -> None:
    """Measure ratios against a limit of the same run."""
    if only and only not in BENCHMARKS:
        raise typer.BadParameter(f"{only}: one of {', '.join(BENCHMARKS)}")
    chosen = [only] if only else list(BENCHMARKS)
    results = [result for name in chosen for result in BENCHMARKS[name](rows)]
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    _show(results, machine)
    figures = {"machine": machine, "results": [asdict(result) for result in results]}
    output.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


def _show(results: list[Result], machine: Mapping[str, object]) -> None:
    table = Table("benchmark", "measured", "against", "s", "s", "ratio", "range")
    for one in results:
        table.add_row(
            one.name,
            one.measured,
            one.against,
            f"{one.seconds:.3f}",
            f"{one.against_seconds:.3f}",
            f"{one.ratio:.2f}",
            f"{one.lowest:.2f} to {one.highest:.2f}"
            + (" (noisy)" if one.noisy else ""),
        )
    console = Console()
    console.print(table)
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()))


if __name__ == "__main__":
    typer.run(main)
