"""`snaptide group check`: proves that masters are equal, or says what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table

import groups
from sites.words import counted
from snaptide.check_words import values
from snaptide.cli.arguments import Json, SiteName
from snaptide.cli.check import Columns, divided
from snaptide.cli.check_shown import more_of, some_rows
from snaptide.cli.failures import ExitCode
from snaptide.cli.group import GroupName, TableNames, app
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.units import duration

if TYPE_CHECKING:
    from groups import CheckDifference, GroupCheckReport, TableCheck


@app.command()
def check(
    ctx: typer.Context,
    site: SiteName,
    group: GroupName,
    tables: TableNames = None,
    *,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Only rows for which this holds anywhere."),
    ] = None,
    columns: Columns = None,
    most: Annotated[
        int,
        typer.Option(
            "--max", min=0, help="List so many rows of each table; counts are exact."
        ),
    ] = 1000,
    json: Json = False,
) -> None:
    """Compare all masters of a group, and explain every difference.

    Changes nothing, and users go on working. Ends with 1 if a difference is
    unexplained, with 4 if a master was left out because it does not answer, and with 3
    if a difference cannot be told from changes under way.

    Example: snaptide group check hq airline flights --where "carrier = 'UA'"
    """
    program = Program.of(ctx)
    chosen = program.site(site)
    with working(program, chosen, "check") as shown, shown(group) as progress:
        report = groups.check(
            chosen,
            group,
            tables or (),
            where=where,
            columns=divided(columns),
            most=most,
            progress=progress,
        )
    show(program, report, lambda: _shown(report))
    if report.unexplained:
        raise typer.Exit(ExitCode.FAILED)
    if report.away:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if report.unproven:
        raise typer.Exit(ExitCode.ATTENTION)


def _shown(report: GroupCheckReport) -> Group:
    parts: list[Table | str] = [
        table(
            ["table", "rows", "kind", "reason", "differ"],
            [row for one in report.tables for row in _counts(one)],
        )
    ]
    for one in report.tables:
        if one.differences:
            parts += ["", _rows(one)]
    if report.left_out:
        parts += ["", *(f"{m} left out: {why}" for m, why in report.left_out.items())]
    parts += ["", f"{_said(report)} ({duration(report.seconds)})"]
    return Group(*parts)


def _counts(one: TableCheck) -> Iterator[tuple[object, ...]]:
    fixed = (one.table, [f"{rows:,} at {name}" for name, rows in one.rows.items()])
    if one.equal:
        yield (*fixed, "-", "equal", 0)
    for count in one.counts:
        yield (*fixed, count.kind, count.reason, count.rows)


def _rows(one: TableCheck) -> Table:
    columns = ["key", "kind", "reason", "masters", "more"]
    rows = [
        (values(row.key), row.kind, row.reason, _images(row), more_of(row))
        for row in one.differences
    ]
    return some_rows(one.table, columns, rows, one.counts)


def _images(row: CheckDifference) -> str:
    """Which masters have which image: the one that most have first."""
    parts = [
        f"{_having(row.masters, letter)}: {values(image)}"
        for letter, image in row.images.items()
    ]
    lacking = _having(row.masters, None)
    return "; ".join([*parts, f"{lacking}: no row"] if lacking else parts)


def _having(masters: Mapping[str, str | None], letter: str | None) -> str:
    return ", ".join(name for name, has in masters.items() if has == letter)


def _said(report: GroupCheckReport) -> str:
    if report.unexplained:
        return f"{counted(report.unexplained, 'row', 'differ')} without a reason."
    if report.unproven:
        return f"{counted(report.unproven, 'row', 'differ')} and cannot be told."
    if len(report.masters) < 2:
        return "No two masters could be compared."
    return "Equal." if report.equal else "All differences are explained."
