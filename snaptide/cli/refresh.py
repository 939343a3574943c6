"""`snaptide refresh`: brings the changes of a master to the snapshots of a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from deferred.options import RefreshOptions
from sites.words import counted
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.by_worker import refreshed
from snaptide.cli.failures import end_if
from snaptide.cli.options import takes
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.queued import hand_over

if TYPE_CHECKING:
    from snapshots.reports import RefreshReport

COLUMNS = ["snapshot", "method", "compared", "inserted", "updated", "deleted", "held"]


@takes(RefreshOptions, push_deferred_rpc="--push/--no-push")
def refresh(
    program: Program,
    site: SiteArgument,
    what: Annotated[
        str,
        typer.Argument(
            metavar="GROUP|SNAPSHOTS",
            help="A refresh group, or snapshots of one, separated by commas.",
        ),
    ],
    *,
    enqueue: Annotated[
        bool, typer.Option("--enqueue/--wait", help="Let a worker run it.")
    ] = False,
    **options: Any,
) -> None:
    """Refresh a group to one moment of its master.

    If a worker of the site is running, it does the refresh, because it has Spark ready;
    Ctrl-C then ends only the waiting.

    A snapshot that cannot be refreshed stays at the moment that it shows, with those
    that depend on it; the others come to one new moment (--strict: all or none).

    Ends with 3 if snapshots stay behind, if the push before it parked transactions or
    was refused, if changes of rows that left were withdrawn, or if the site refuses
    rows.

    Example: snaptide refresh jfk flights --method cf
    """
    if enqueue:
        hand_over(program, "refresh", site.name, what, **options)
        return
    report = refreshed(program, site, what, options)
    show(program, report, lambda: _shown(report))
    parked = report.pushed is not None and report.pushed.errors
    end_if(
        attention=parked
        or report.behind
        or report.not_pushed
        or any(one.refused or one.withdrawn for one in report.snapshots)
    )


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
            f"Pushed before: {counted(report.pushed.transactions, 'transaction')}, "
            f"{report.pushed.errors} parked."
        )
    if report.not_pushed is not None:
        lines.append(f"Not pushed before: {report.not_pushed}")
    lines += [f"{one.name}: {said}" for one in report.snapshots if (said := one.moves)]
    lines += [
        f"{one.name}: the site refuses {count} of them: {why}"
        for one in report.snapshots
        for why, count in one.refused.items()
    ]
    return Group(table(COLUMNS, rows), "", *lines, *_behind(report))


def _behind(report: RefreshReport) -> Iterator[str]:
    """Say which snapshots stay behind, why, and what to do."""
    for one in report.behind:
        if one.depends_on is not None:
            yield f"{one.name} stays behind with {one.depends_on}."
        else:
            yield f"{one.name} stays behind: {one.code} {one.why}"
            yield f"  hint: {one.hint}"
