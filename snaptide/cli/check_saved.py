"""`snaptide check list`, `show` and `delete`: checks that were saved at a site."""

from __future__ import annotations

from typing import Annotated

import typer

import snapshots
from snaptide.cli import check_page, written
from snaptide.cli.arguments import Html, SiteArgument
from snaptide.cli.check import app
from snaptide.cli.check_shown import end_with, shown_check
from snaptide.cli.confirm import Yes, confirm
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.errors import BadArgument
from snaptide.units import duration


@app.command("list")
def list_(
    program: Program,
    site: SiteArgument,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 20,
) -> None:
    """List the checks that were saved at a site, the latest first.

    Example: snaptide check list jfk
    """
    found = snapshots.list_checks(site, limit=limit)
    rows = [
        (
            one.run,
            one.at,
            duration(one.seconds),
            [each.name for each in one.snapshots],
            one.where,
            one.columns,
            one.differing,
            one.unexplained,
            one.unproven,
            [*one.away],
        )
        for one in found
    ]
    columns = ["run", "at", "took", "snapshots", "where", "columns", "rows differ"]
    columns += ["unexplained", "cannot be told", "not compared"]
    show(program, found, lambda: table(columns, rows))


@app.command("show")
def show_(
    program: Program,
    site: SiteArgument,
    run: Annotated[int, typer.Argument(metavar="RUN")],
    html: Html = None,
) -> None:
    """Show a saved check as it was printed then, and end with the same code.

    Example: snaptide check show jfk 7
    """
    report = snapshots.show_check(site, run)
    if html is not None:
        written.refuse_unwritable(html)
        written.write(html, check_page.page(report))
    show(program, report, lambda: shown_check(report))
    end_with(report)


@app.command()
def delete(
    program: Program,
    site: SiteArgument,
    runs: Annotated[list[int] | None, typer.Argument(metavar="[RUN]...")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All checks that were saved there.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete saved checks for good; asks first, and ends with 1 if you say no.

    Example: snaptide check delete jfk 7
    """
    if bool(runs) == everything:
        raise BadArgument("Give the numbers of checks, or --all.")
    which = "all" if everything else f"{len(runs or ())}"
    confirm(f"Delete {which} saved checks of {site.name} for good?", yes=yes)
    gone = snapshots.delete_checks(site, None if everything else runs)
    show_facts(program, site=site.name, deleted=gone)
