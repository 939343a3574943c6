"""`snaptide check`: proves that snapshots equal their masters, or says what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table

import snapshots
from snaptide.cli.arguments import Json, SiteName
from snaptide.cli.failures import ExitCode
from snaptide.cli.output import cell, duration, show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working

if TYPE_CHECKING:
    from snapshots.check.report import CheckReport, Difference, SnapshotCheck


def check(
    ctx: typer.Context,
    site: SiteName,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP|SNAPSHOT]...",
            help="Refresh groups and snapshots; default: all of the site.",
        ),
    ] = None,
    *,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="Only rows for which this holds at either side."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", help="Compare only these columns, separated by commas."
        ),
    ] = None,
    most: Annotated[
        int,
        typer.Option(
            "--max", min=0, help="List so many rows of each snapshot; counts are exact."
        ),
    ] = 1000,
    json: Json = False,
) -> None:
    """Compare snapshots with their masters, and explain every difference.

    Changes nothing, and users go on working. Ends with 1 if a difference is
    unexplained, and with 3 if one cannot be told from changes under way.

    Example: snaptide check jfk flights --where "carrier = 'UA'"
    """
    program = Program.of(ctx)
    chosen, subject = program.site(site), " ".join(names or ["all snapshots"])
    with working(program, chosen, "check") as shown, shown(subject) as progress:
        report = snapshots.check(
            chosen,
            names or (),
            where=where,
            columns=[] if columns is None else list(_columns(columns)),
            most=most,
            progress=progress,
        )
    show(program, report, lambda: _shown(report))
    if report.unexplained:
        raise typer.Exit(ExitCode.FAILED)
    if report.unproven:
        raise typer.Exit(ExitCode.ATTENTION)


def _columns(given: str) -> Iterator[str]:
    from sites import names

    return map(names.plain, filter(None, names.divided(given, ",")))


def _shown(report: CheckReport) -> Group:
    parts: list[Table | str] = [
        table(
            ["snapshot", "at master", "here", "kind", "reason", "rows"],
            [row for one in report.snapshots for row in _counts(one)],
        )
    ]
    for one in report.snapshots:
        if one.differences:
            parts += ["", _rows(one)]
        if one.unproven is not None:
            parts += ["", f"{one.name}: {one.unproven}."]
    parts += ["", f"{_said(report)} ({duration(report.seconds)})"]
    return Group(*parts)


def _counts(one: SnapshotCheck) -> Iterator[tuple[object, ...]]:
    sides = (one.name, one.rows_master, one.rows_here)
    if one.equal:
        yield (*sides, "-", "equal" if one.unproven is None else "cannot be told", 0)
    for count in one.counts:
        yield (*sides, count.kind, count.reason, count.rows)


def _rows(one: SnapshotCheck) -> Table:
    listed, total = len(one.differences), sum(count.rows for count in one.counts)
    some = "" if listed == total else f", {listed:,} of {total:,} rows"
    return table(
        ["key", "kind", "reason", "at master", "here", "more"],
        [
            (
                _values(row.key),
                row.kind,
                row.reason,
                _values(row.master),
                _values(row.here),
                _more(row),
            )
            for row in one.differences
        ],
        f"{one.name}{some}",
    )


def _values(row: Mapping[str, str | None] | None) -> str:
    if row is None:
        return "no row"
    values = (f"{k}: {'NULL' if v is None else v}" for k, v in row.items())
    return ", ".join(values)


def _more(row: Difference) -> str:
    parts = [
        row.detail,
        None if row.transaction is None else f"transaction {row.transaction}",
        None if row.since is None else f"since {cell(row.since)}",
    ]
    return ", ".join(filter(None, parts))


def _said(report: CheckReport) -> str:
    if report.unexplained:
        return f"{report.unexplained:,} rows differ without a reason."
    if report.unproven:
        return f"{report.unproven:,} rows differ and cannot be told: refresh first."
    return "Equal." if report.equal else "All differences are explained."
