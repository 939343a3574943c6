"""`snaptide group check`: proves that masters are equal, or says what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table

import groups
from snaptide.check_words import counts_of, images_of, more_of, said_of_masters, values
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.check import Columns, divided
from snaptide.cli.check_shown import some_rows
from snaptide.cli.failures import end_if
from snaptide.cli.group import GroupName, TableNames, app
from snaptide.cli.output import cell, show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.units import duration

if TYPE_CHECKING:
    from groups import GroupCheckReport, TableCheck


@app.command()
def check(
    program: Program,
    site: SiteArgument,
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
) -> None:
    """Compare all masters of a group, and explain every difference.

    Changes nothing, and users go on working. Ends with 1 if a difference is
    unexplained, with 4 if a master was left out because it does not answer, and with 3
    if a difference cannot be told from changes under way.

    Example: snaptide group check hq airline flights --where "carrier = 'UA'"
    """
    with working(program, site, "check") as shown, shown(group) as progress:
        report = groups.check(
            site,
            group,
            tables or (),
            where=where,
            columns=divided(columns),
            most=most,
            progress=progress,
        )
    show(program, report, lambda: _shown(report))
    end_if(
        failed=report.unexplained, unreachable=report.away, attention=report.unproven
    )


def _shown(report: GroupCheckReport) -> Group:
    parts: list[Table | str] = [
        table(
            ["table", "rows", "kind", "reason", "differ"],
            [
                (one.table, [f"{n:,} at {m}" for m, n in one.rows.items()], *counted)
                for one in report.tables
                for counted in counts_of(one)
            ],
        )
    ]
    for one in report.tables:
        if one.differences:
            parts += ["", _rows(one)]
    if report.left_out:
        parts += ["", *(f"{m} left out: {why}" for m, why in report.left_out.items())]
    parts += ["", f"{said_of_masters(report)} ({duration(report.seconds)})"]
    return Group(*parts)


def _rows(one: TableCheck) -> Table:
    columns = ["key", "kind", "reason", "masters", "more"]
    rows = [
        (values(row.key), row.kind, row.reason, images_of(row), more_of(row, cell))
        for row in one.differences
    ]
    return some_rows(one.table, columns, rows, one.counts)
