"""`snaptide rectify`: mends rows that differ from the master without a reason."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table

import snapshots
from snapshots.rectify.report import Extra, Missing, Reference
from snaptide.check_words import differ_still, rectified, values
from snaptide.cli import written
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.check_shown import some_rows
from snaptide.cli.failures import end_if
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.errors import BadArgument
from snaptide.units import duration

if TYPE_CHECKING:
    from snapshots import PlannedRow, RectifyReport, RectifyRule, SnapshotRectified

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN] [GROUP|SNAPSHOT]...",
        help="The number of a saved check, for the rows that it lists; refresh "
        "groups and snapshots; default: all of the site.",
    ),
]
ReferenceSide = Annotated[
    Reference, typer.Option(help="The side that is right; newest: by row.")
]
ExtraRows = Annotated[
    Extra, typer.Option(help="Rows that the reference does not have.")
]
MissingRows = Annotated[Missing, typer.Option(help="Rows that only the reference has.")]
OnlyKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="Only the row with this key, its values separated by commas; repeatable.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan", dir_okay=False, help="Write the plan to this file; do nothing."
    ),
]
AppliedFile = Annotated[
    Path | None,
    typer.Option(
        "--apply", exists=True, dir_okay=False, help="Do what such a file says."
    ),
]
RulesFile = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        exists=True,
        dir_okay=False,
        help="Decide for each row by the rules in this file.",
    ),
]
Listed = Annotated[
    int, typer.Option("--max", min=0, help="List so many rows of each snapshot.")
]
AllowMassDelete = Annotated[
    bool,
    typer.Option(
        "--allow-mass-delete", help="Let the site lose any share of its rows."
    ),
]


def rectify(
    program: Program,
    site: SiteArgument,
    names: Names = None,
    *,
    reference: ReferenceSide = Reference.MASTER,
    extra: ExtraRows = Extra.DELETE,
    missing: MissingRows = Missing.COPY,
    rules: RulesFile = None,
    only: OnlyKeys = None,
    dry_run: DryRun = False,
    plan: PlanFile = None,
    apply: AppliedFile = None,
    most: Listed = 1000,
    allow_mass_delete: AllowMassDelete = False,
) -> None:
    """Mend rows of snapshots that differ from the master without a reason.

    Users go on working, and lose nothing. Rows that differ for a reason take their
    course. Ends with 1 if rows still differ without a reason, and with 3 if a dry run
    found any, if some differ still for a reason or cannot be told, or if a snapshot is
    not loaded yet.

    Example: snaptide rectify jfk flights --extra keep --dry-run
    """
    subject = " ".join(names or ["all snapshots"])
    run, names = _divided(names or [])
    if apply is not None and (plan or rules or run is not None or names or only):
        raise BadArgument("--apply takes rows from its file: leave the others out.")
    if rules is not None:
        _refuse_beside(program, "The rules decide about rows")
    if apply is not None:
        _refuse_beside(program, "The plan says what to take for each row")
    if plan is not None:
        written.refuse_unwritable(plan)
    given = None if apply is None else _read(apply, site.name)
    with working(program, site, "rectify") as shown, shown(subject) as progress:
        report = snapshots.rectify(
            site,
            names,
            reference=reference,
            extra=extra,
            missing=missing,
            run=run,
            only=[key_values(one) for one in only or ()],
            plan=given,
            rules=None if rules is None else _read_rules(rules),
            dry_run=dry_run or plan is not None,
            most=most if plan is None else None,
            allow_mass_delete=allow_mass_delete,
            progress=progress,
        )
    if plan is not None:
        _write(plan, report)
    show(program, report, lambda: _shown(report, plan))
    end_if(
        failed=report.unexplained,
        attention=report.waiting
        or report.unproven
        or report.not_loaded
        or (report.dry_run and report.to_mend),
    )


def _divided(given: list[str]) -> tuple[int | None, list[str]]:
    """The number of a saved check, if the first argument is one, and the names."""
    if given and given[0].isdecimal():
        return int(given[0]), given[1:]
    return None, given


def _read(file: Path, site: str) -> list[PlannedRow]:
    from snaptide.cli import rectify_file

    return rectify_file.read(file, site)


def _refuse_beside(program: Program, why: str) -> None:
    """Refuse options that decide about rows, where a file does.

    Raises:
        BadArgument: one was given.
    """
    for name in ("reference", "extra", "missing"):
        if program.is_given(name):
            raise BadArgument(f"{why}: leave --{name} out.")


def _read_rules(file: Path) -> list[RectifyRule]:
    from snaptide.cli import rectify_file

    return rectify_file.read_rules(file)


def _write(file: Path, report: RectifyReport) -> None:
    from snaptide.cli import rectify_file

    written.write(file, rectify_file.written(report))


def key_values(text: str) -> list[str]:
    """The values of a key; one with a comma or a quote stands in double quotes.

    Raises:
        BadArgument: one lacks them.
    """
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        raise BadArgument(
            f"--only {text!r}: put a value with a comma, a quote or a line break in "
            "double quotes, and double the quotes in it."
        ) from None


def _shown(report: RectifyReport, plan: Path | None) -> Group:
    parts: list[Table | str] = [
        table(
            ["snapshot", "kind", "take", "rows"],
            [row for one in report.snapshots for row in _planned(one)],
        )
    ]
    if report.dry_run and plan is None:
        for one in report.snapshots:
            if one.rows:
                parts += ["", _rows(one)]
    left = [
        (one.name, count.kind, count.reason, count.rows)
        for one in report.snapshots
        for count in one.left
    ]
    if left:
        title = "Left, because they differ for a reason"
        parts += ["", table(["snapshot", "kind", "reason", "rows"], left, title)]
    if not report.dry_run:
        parts += ["", _done(report)]
    parts += ["", f"{_said(report, plan)} ({duration(report.seconds)})"]
    return Group(*parts)


def _planned(one: SnapshotRectified) -> Iterator[tuple[object, ...]]:
    if not one.planned:
        yield (one.name, "-", "-", 0)
    for count in one.planned:
        yield (one.name, count.kind, count.take, count.rows)


def _rows(one: SnapshotRectified) -> Table:
    columns = ["key", "kind", "take", "at master", "here"]
    rows = [
        (values(row.key), row.kind, row.take, values(row.master), values(row.here))
        for row in one.rows
    ]
    return some_rows(one.name, columns, rows, one.planned)


def _done(report: RectifyReport) -> Table:
    rows: Sequence[tuple[object, ...]] = [
        (
            one.name,
            one.asked,
            one.queued,
            one.mended,
            differ_still(one),
        )
        for one in report.snapshots
    ]
    return table(["snapshot", "by refresh", "queued", "mended", "differ still"], rows)


def _said(report: RectifyReport, plan: Path | None) -> str:
    said = rectified(report)
    if plan is not None:
        said = f"{plan} has the plan: edit it, then run rectify with --apply {plan}."
    if report.not_loaded:
        said += f" Not loaded yet: {', '.join(report.not_loaded)}."
    return said
