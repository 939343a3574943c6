"""What a check found, as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.table import Table

from snaptide.check_words import counts_of, more_of, said_of, values
from snaptide.cli.failures import end_if
from snaptide.cli.output import cell, table
from snaptide.units import duration

if TYPE_CHECKING:
    from snapshots.check.report import CheckReport, SnapshotCheck


class _Count(Protocol):
    @property
    def rows(self) -> int: ...


def shown_check(report: CheckReport) -> Group:
    """The report of a check for people."""
    parts: list[Table | str] = [
        table(
            ["snapshot", "at master", "here", "kind", "reason", "rows"],
            [
                (one.name, one.rows_master, one.rows_here, *counted)
                for one in report.snapshots
                for counted in counts_of(one)
            ],
        )
    ]
    for one in report.snapshots:
        if one.differences:
            parts += ["", _rows(one)]
        if one.unproven is not None and not one.equal:
            parts += ["", f"{one.name}: {one.unproven}."]
    left_out = [
        f"{one.name} does not have {', '.join(one.not_carried)}"
        for one in report.snapshots
        if one.not_carried
    ]
    away = [f"{name} not compared: {why}" for name, why in report.away.items()]
    for lines in (left_out, away):
        parts += ["", *lines] if lines else []
    saved = "" if report.run is None else f" Saved as {report.run}."
    parts += ["", f"{said_of(report)} ({duration(report.seconds)}){saved}"]
    return Group(*parts)


def _rows(one: SnapshotCheck) -> Table:
    columns = ["key", "kind", "reason", "at master", "here", "more"]
    rows = [
        (
            values(row.key),
            row.kind,
            row.reason,
            values(row.master),
            values(row.here),
            more_of(row, cell),
        )
        for row in one.differences
    ]
    return some_rows(one.name, columns, rows, one.counts)


def some_rows(
    name: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    counts: Iterable[_Count],
) -> Table:
    """Rows that are listed, below a title that says so if they are not all."""
    total = sum(count.rows for count in counts)
    some = "" if len(rows) == total else f", {len(rows):,} of {total:,} rows"
    return table(columns, rows, f"{name}{some}")


def end_with(report: CheckReport) -> None:
    """End the program as a check ends.

    Raises:
        typer.Exit: rows differ without a reason, or cannot be told, a master is away,
            or a snapshot was not compared.
    """
    end_if(
        failed=report.unexplained,
        unreachable=report.away,
        attention=report.unproven or report.not_compared,
    )
