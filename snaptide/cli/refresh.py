"""`snaptide refresh`: brings the changes of a master to the snapshots of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

import snapshots
from snaptide.cli.arguments import Json, SiteName
from snaptide.cli.failures import ExitCode
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import bar
from snaptide.cli.queued import hand_over

if TYPE_CHECKING:
    from snapshots.reports import RefreshReport

COLUMNS = ["snapshot", "method", "compared", "inserted", "updated", "deleted", "held"]


def refresh(
    ctx: typer.Context,
    site: SiteName,
    what: Annotated[
        str,
        typer.Argument(
            metavar="GROUP|SNAPSHOTS",
            help="A refresh group, or snapshots of one, separated by commas.",
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            help="One character per snapshot: f for fast, c for complete, ? for fast "
            "if possible."
        ),
    ] = "",
    push: Annotated[
        bool, typer.Option("--push/--no-push", help="Push this site's changes first.")
    ] = True,
    refresh_after_errors: Annotated[
        bool,
        typer.Option(
            help="Refresh even if the error queue holds transactions of this site."
        ),
    ] = True,
    keep_pending: Annotated[
        bool,
        typer.Option(
            help="Keep changes that the master has not seen (Oracle does not)."
        ),
    ] = True,
    allow_mass_delete: Annotated[
        bool,
        typer.Option(
            "--allow-mass-delete",
            help="Allow the refresh to delete any share of the rows.",
        ),
    ] = False,
    enqueue: Annotated[
        bool, typer.Option("--enqueue/--wait", help="Let a worker run it.")
    ] = False,
    json: Json = False,
) -> None:
    """Refresh a group to one moment of its master.

    Ends with 3 if the push before it parked transactions, or if the site refuses rows.

    Example: snaptide refresh jfk flights --method cf
    """
    program = Program.of(ctx)
    options: dict[str, Any] = {
        "method": method,
        "push_deferred_rpc": push,
        "refresh_after_errors": refresh_after_errors,
        "keep_pending": keep_pending,
        "allow_mass_delete": allow_mass_delete,
    }
    if enqueue:
        hand_over(program, "refresh", site, what, **options)
        return
    chosen = program.site(site)
    with bar(program, f"refresh {chosen.name} {what}") as progress:
        report = snapshots.refresh(chosen, what, progress=progress, **options)
    show(program, report, lambda: _shown(report))
    parked = report.pushed is not None and report.pushed.errors
    if parked or any(one.refused for one in report.snapshots):
        raise typer.Exit(ExitCode.ATTENTION)


def _shown(report: RefreshReport) -> Group:
    rows = [
        (
            one.name,
            one.method,
            "all" if one.window_keys is None else one.window_keys,
            one.inserted,
            one.updated,
            one.deleted,
            one.held_back,
        )
        for one in report.snapshots
    ]
    lines = [f"{report.group} shows its master as it was {report.seconds:.1f} s ago."]
    if report.pushed is not None:
        lines.append(
            f"Pushed before: {report.pushed.transactions} transactions, "
            f"{report.pushed.errors} parked."
        )
    lines += [
        f"{one.name}: the site refuses {count} of them: {why}"
        for one in report.snapshots
        for why, count in one.refused.items()
    ]
    return Group(table(COLUMNS, rows), "", *lines)
