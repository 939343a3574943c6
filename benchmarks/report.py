"""Results as a table for people, and as JSON to keep and to compare with."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import psutil
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.pairs import Result

#: A ratio that moved by more than this since an earlier run is pointed out.
MOVED = 0.15

#: A larger share of the time given to other machines makes a run worthless.
STOLEN = 0.05

#: Of the table in a file.
WIDTH = 150

#: What the processors had done when this run began.
_BEGAN = psutil.cpu_times()


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "stolen": f"{_stolen():.0%}",
    }


def _stolen() -> float:
    """The share of this run's time that a hypervisor gave to other machines.

    No load tells of it, and it hits most what waits and wakes: single transactions.
    """
    now = psutil.cpu_times()
    passed = sum(now) - sum(_BEGAN)
    stolen = getattr(now, "steal", 0.0) - getattr(_BEGAN, "steal", 0.0)
    return stolen / passed if passed else 0.0


def keep(results: Sequence[Result], output: Path) -> None:
    """Write the figures to a file."""
    figures = {"machine": machine(), "results": [asdict(one) for one in results]}
    output.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


def read(path: Path) -> dict[tuple[str, str], float]:
    """The ratios of an earlier run, by name and what they are against.

    Raises:
        typer.BadParameter: the file does not hold figures of these benchmarks.
    """
    try:
        found = json.loads(path.read_text("utf-8"))["results"]
        return {(one["name"], one["against"]): float(one["ratio"]) for one in found}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise typer.BadParameter(f"{path} holds no figures: {error}") from None


def show(
    results: Sequence[Result], before: Mapping[tuple[str, str], float] | None = None
) -> None:
    """Print the results, each beside its bar and the ratio of the earlier run."""
    table = Table("benchmark", "measured", "against", "", "", "ratio", "range", "bar")
    if before:
        table.add_column("before")
    for one in results:
        table.add_row(*_cells(one), *([_before(one, before)] if before else []))
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(table)
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()))
    if any(one.noisy for one in results):
        console.print("[yellow]noisy: the rounds differ too much to be trusted[/]")
    if _stolen() > STOLEN:
        console.print("[yellow]stolen: other machines had the processors meanwhile[/]")


def _cells(one: Result) -> list[str]:
    return [
        one.name,
        one.measured,
        one.against,
        _amount(one.value, one.unit),
        _amount(one.against_value, one.unit),
        f"{one.ratio:.2f}" + (" [yellow]noisy[/]" if one.noisy else ""),
        f"{one.lowest:.2f} to {one.highest:.2f}",
        _bar(one),
    ]


def _amount(value: float, unit: str) -> str:
    return f"{value:.3f} s" if unit == "s" else f"{value:,.0f} {unit}"


def _bar(one: Result) -> str:
    if one.bar is None:
        return ""
    colour = "green" if one.ratio <= one.bar else "red"
    return f"[{colour}]{one.bar:.2f}[/]"


def _before(one: Result, before: Mapping[tuple[str, str], float]) -> str:
    ratio = before.get((one.name, one.against))
    if ratio is None:
        return "new"
    moved = one.ratio / ratio - 1
    if abs(moved) <= MOVED:
        return f"{ratio:.2f}"
    colour = "green" if moved < 0 else "red"
    return f"[{colour}]{ratio:.2f} ({moved:+.0%})[/]"
