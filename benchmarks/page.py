"""`make bench-page`: the figures of runs as a page of the docs, with plots."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl
import typer
from matplotlib.figure import Figure

from benchmarks.pairs import Result

DOCS = Path(__file__).parents[1] / "docs" / "explanation"

_INTRO = """\
# Speed

This page is written by `make bench-page` from figures that `make bench` has kept, of
one run or several; each table says what its run had, how busy the machine was at its
end, and which share of its time a hypervisor had *stolen* for others. Two sides are
measured in turn in the same run, so that the ratio of a pair means something on a
machine that does other things too; a single time, as in the plot of changes, does not.
Each ratio is the median of its rounds; memory is measured once, and what is against a
fixed figure has no second side. A *bar* is the ratio that the project wants to keep
below. *Noisy*: the middle half of the ratios differs by more than a quarter, so measure
it again on a quiet machine before you believe it. Runs of fewer rows than `make bench`
takes say so in the names of their sizes, and mean less.

"""

#: File, title, and how the x axis is called.
_CHANGES = ("speed-changes.svg", "Cost against the size of the change", "changed rows")
_TABLES = ("speed-tables.svg", "Cost against the size of the table", "rows")
_RATIOS = "speed-ratios.svg"

Points = dict[str, list[tuple[int, float]]]


def main(
    sources: Annotated[list[Path], typer.Argument(help="What `make bench` has kept.")],
    folder: Annotated[Path, typer.Option(help="Where the page goes.")] = DOCS,
) -> None:
    """Write the page and its plots."""
    # The same figures give the same files.
    mpl.rcParams.update({"svg.hashsalt": "snaptide", "svg.fonttype": "none"})
    parts, results = [_INTRO], []
    for source in sources:
        kept = json.loads(source.read_text("utf-8"))
        found = [Result(**one) for one in kept["results"]]
        parts += [_machine(kept["machine"]), _table(found)]
        results += found
    _ratios(results, folder / _RATIOS)
    parts.append(f"![Ratios, each beside its bar]({_RATIOS})\n")
    for points, (file, title, x) in (
        (_by_change(results), _CHANGES),
        (_by_table(results), _TABLES),
    ):
        if points:
            _curves(points, title, x, folder / file)
            parts.append(f"![{title}]({file})\n")
    parts += _scale_out(results)
    (folder / "speed.md").write_text("\n".join(parts), "utf-8")


def _machine(machine: dict[str, Any]) -> str:
    return "Measured on: " + ", ".join(f"{k} {v}" for k, v in machine.items()) + ".\n"


def _table(results: Sequence[Result]) -> str:
    lines = [
        "| benchmark | measured | against | ratio | range | bar |",
        "|---|---|---|---|---|---|",
    ]
    for one in results:
        bar = "" if one.bar is None else f"{one.bar:.2f}"
        ratio = f"{one.ratio:.2f}" + (" *noisy*" if one.noisy else "")
        cells = [one.name, one.measured, one.against, ratio]
        spread = f"{one.lowest:.2f} to {one.highest:.2f}"
        lines.append("| " + " | ".join([*cells, spread, bar]) + " |")
    return "\n".join(lines) + "\n"


def _scale_out(results: Sequence[Result]) -> list[str]:
    """From what size on a cluster is worth its while, in words."""
    measured = [one for one in results if one.name.startswith("scale-out: ")]
    if not measured:
        return []
    larger = reversed(measured)
    paid = [*takewhile(lambda one: one.ratio < 1 and not one.noisy, larger)]
    first = paid[-1].name.partition(": ")[2] if paid else ""
    largest = measured[-1].name.partition(": ")[2]
    pays = (
        f"pays from this on: {first}"
        if paid
        else f"does not pay up to the largest size measured, a {largest}: on one"
        " machine workers have no more cores than one process, and rows travel further"
    )
    words = (
        "The same refresh gave the same rows on a Spark standalone cluster of two"
        f" workers of one core each and on `local[*]`. It {pays}. Windows of up to"
        " 250,000 rows are compared as they are read, wherever Spark is.\n"
    )
    return ["## A cluster of two workers\n", words]


def _by_change(results: Sequence[Result]) -> Points:
    """Seconds by changed rows, of a refresh and of what it is measured against."""
    points: Points = {}
    for one in results:
        found = re.fullmatch(r"refresh: ([\d,]+) of ([\d,]+) rows", one.name)
        if found and one.measured.startswith("fast refresh"):
            changed = _number(found[1])
            refresh = points.setdefault(one.measured, [])
            if (changed, one.value) not in refresh:
                refresh.append((changed, one.value))
            points.setdefault(one.against, []).append((changed, one.against_value))
    return points


def _by_table(results: Sequence[Result]) -> Points:
    """Seconds by rows of the table, for one size of change."""
    points: Points = {}
    for one in results:
        sides = ((one.measured, one.value), (one.against, one.against_value))
        for label, seconds in sides:
            found = re.fullmatch(r"in a table of ([\d,]+)", label)
            if found:
                points.setdefault(one.name, []).append((_number(found[1]), seconds))
    return {name: sorted(line) for name, line in points.items()}


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _curves(points: Points, title: str, x: str, path: Path) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for label, line in points.items():
        axes.plot(*zip(*line, strict=True), marker="o", label=label)
    axes.set(title=title, xlabel=x, ylabel="seconds", xscale="log")
    axes.set_ylim(bottom=0)
    axes.legend()
    _save(figure, path)


def _ratios(results: Sequence[Result], path: Path) -> None:
    """Each ratio as a share of its bar: what reaches the line has met it."""
    barred = [one for one in reversed(results) if one.bar]
    figure = Figure(figsize=(9, 0.8 + 0.4 * len(barred)), layout="constrained")
    axes = figure.subplots()
    labels = [f"{one.name}: {one.measured}" for one in barred]
    shares = [one.ratio / one.bar for one in barred if one.bar]
    axes.barh(range(len(barred)), shares, tick_label=labels)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set(title="Ratios as shares of their bars (at most 1)")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    typer.run(main)
