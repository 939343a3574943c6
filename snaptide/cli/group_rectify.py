"""`snaptide group rectify`: makes masters of a group equal to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table

import groups
from groups.rectify.report import RectifyExtra
from snapshots.rectify.report import Missing
from snaptide.check_words import differ_still, rectified, values
from snaptide.cli.arguments import SiteArgument, complete_site
from snaptide.cli.check_shown import some_rows
from snaptide.cli.failures import end_if
from snaptide.cli.group import GroupName, TableNames, app
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.cli.rectify import DryRun, MissingRows, OnlyKeys, key_values
from snaptide.units import duration

if TYPE_CHECKING:
    from groups import GroupRectifyReport, TableRectified


ReferenceMaster = Annotated[
    str,
    typer.Option(
        metavar="MASTER",
        help="The master whose rows are right.",
        autocompletion=complete_site,
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="MASTER",
        help="A master to be mended; repeatable. Default: all others.",
        autocompletion=complete_site,
    ),
]
ExtraRows = Annotated[
    RectifyExtra, typer.Option(help="Rows that the reference does not have.")
]
Listed = Annotated[
    int, typer.Option("--max", min=0, help="List so many rows of each table.")
]


@app.command()
def rectify(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    tables: TableNames = None,
    *,
    reference: ReferenceMaster,
    targets: Targets = None,
    extra: ExtraRows = RectifyExtra.DELETE,
    missing: MissingRows = Missing.COPY,
    only: OnlyKeys = None,
    dry_run: DryRun = False,
    most: Listed = 1000,
) -> None:
    """Give masters the rows of a reference, where nothing explains the difference.

    Users go on working, and lose nothing. Rows that are in flight, parked or cannot be
    told take their course. Ends with 1 if rows still differ without a reason, with 4
    if a master was left out because it does not answer, and with 3 if a dry run found
    any, or if some differ still for a reason or cannot be told.

    Example: snaptide group rectify hq airline --reference hq --target lax --dry-run
    """
    with working(program, site, "rectify") as shown, shown(group) as progress:
        report = groups.rectify(
            site,
            group,
            tables or (),
            reference=reference,
            targets=targets or (),
            extra=extra,
            missing=missing,
            only=[key_values(one) for one in only or ()],
            dry_run=dry_run,
            most=most,
            progress=progress,
        )
    show(program, report, lambda: _shown(report))
    end_if(
        failed=report.unexplained,
        unreachable=report.away,
        attention=report.waiting
        or report.unproven
        or (report.dry_run and report.to_mend),
    )


def _shown(report: GroupRectifyReport) -> Group:
    parts: list[Table | str] = [
        table(
            ["master", "table", "kind", "mend", "rows"],
            [row for one in report.tables for row in _planned(one)],
        )
    ]
    if report.dry_run:
        for one in report.tables:
            if one.rows:
                parts += ["", _rows(report, one)]
    left = [
        (one.target, one.table, count.kind, count.reason, count.rows)
        for one in report.tables
        for count in one.left
    ]
    if left:
        title = "Left, because they differ for a reason"
        names = ["master", "table", "kind", "reason", "rows"]
        parts += ["", table(names, left, title)]
    if not report.dry_run:
        parts += ["", _done(report)]
    if report.left_out:
        parts += ["", *(f"{m} left out: {why}" for m, why in report.left_out.items())]
    parts += ["", f"{rectified(report, todo='')} ({duration(report.seconds)})"]
    return Group(*parts)


def _planned(one: TableRectified) -> Iterator[tuple[object, ...]]:
    if not one.planned:
        yield (one.target, one.table, "-", "-", 0)
    for count in one.planned:
        yield (one.target, one.table, count.kind, count.mend, count.rows)


def _rows(report: GroupRectifyReport, one: TableRectified) -> Table:
    columns = ["key", "kind", "mend", f"at {report.reference}", f"at {one.target}"]
    rows = [
        (
            values(row.key),
            row.kind,
            row.mend,
            values(row.reference),
            values(row.target),
        )
        for row in one.rows
    ]
    return some_rows(f"{one.table} at {one.target}", columns, rows, one.planned)


def _done(report: GroupRectifyReport) -> Table:
    rows = [
        (
            one.target,
            one.table,
            one.queued,
            one.sender,
            one.mended,
            differ_still(one),
        )
        for one in report.tables
    ]
    names = ["master", "table", "queued", "queued at", "mended", "differ still"]
    return table(names, rows)
