"""`snaptide check`: proves that snapshots equal their masters, or says what differs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import snapshots
from snaptide.cli import check_page, written
from snaptide.cli.arguments import Html, SiteArgument, duration
from snaptide.cli.check_shown import end_with, shown_check
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.cli.verbs import Verbs


class _RunByDefault(TyperGroup):
    """Takes `check SITE` for `check run SITE`, where SITE is no other verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Put `run` before arguments that do not begin with a verb."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the verbs, and the sites that may stand in their place."""
        site = self.commands["run"].params[0]
        return [
            *super().shell_complete(ctx, incomplete),
            *site.shell_complete(ctx, incomplete),
        ]


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[GROUP|SNAPSHOT]...",
        help="Refresh groups and snapshots; default: all of the site.",
    ),
]
Where = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Only rows for which this holds at either side."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS", help="Compare only these columns, separated by commas."
    ),
]

Since = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Only rows that were inserted or updated within it at either side: 30m, "
        "2h, 7d.",
    ),
]
Listed = Annotated[
    int,
    typer.Option(
        "--max", min=0, help="List so many rows of each snapshot; counts are exact."
    ),
]
Save = Annotated[
    bool, typer.Option("--save", help="Keep the report at the site: check show.")
]
Gently = Annotated[
    bool,
    typer.Option(
        "--gently", help="Read in statements of less than a second, with rests."
    ),
]

app = Verbs(cls=_RunByDefault)


@app.command()
def run(
    program: Program,
    site: SiteArgument,
    names: Names = None,
    *,
    where: Where = None,
    columns: Columns = None,
    since: Since = None,
    most: Listed = 1000,
    save: Save = False,
    gently: Gently = False,
    html: Html = None,
) -> None:
    """Compare snapshots with their masters, and explain every difference.

    Changes nothing, and users go on working. Ends with 1 if a difference is
    unexplained, with 4 if a group was not compared because its master does not answer,
    and with 3 if one cannot be told from changes under way, or a snapshot was not
    compared, because it is not loaded yet or does not fit its table any more. `run` may
    be left out, unless the site is called as another verb.

    Example: snaptide check run jfk flights --where "carrier = 'UA'"
    """
    subject = " ".join(names or ["all snapshots"])
    if html is not None:
        written.refuse_unwritable(html)
    with working(program, site, "check") as bars, bars(subject) as progress:
        report = snapshots.check(
            site,
            names or (),
            where=where,
            columns=divided(columns),
            since=None if since is None else duration("--since", since),
            most=most,
            save=save,
            gently=gently,
            progress=progress,
        )
    if html is not None:
        written.write(html, check_page.page(report))
    show(program, report, lambda: shown_check(report))
    end_with(report)


def divided(columns: str | None) -> list[str]:
    """The columns that were asked for."""
    from sites import names

    return [*map(names.plain, filter(None, names.divided(columns or "", ",")))]
