"""`snaptide wait`: waits until a site shows what was pushed."""

from __future__ import annotations

from typing import Annotated

import typer

import snapshots
from snaptide.cli.arguments import SiteArgument, duration
from snaptide.cli.output import show
from snaptide.cli.program import Program


def wait(
    program: Program,
    site: SiteArgument,
    token: Annotated[
        str, typer.Argument(help="That of the push, as snaptide push --json prints it.")
    ],
    *,
    group: Annotated[
        str | None,
        typer.Option(help="One refresh group; else all that have this master."),
    ] = None,
    timeout: Annotated[
        str, typer.Option(help="How long to wait, as 30s or 5m.")
    ] = "30s",
) -> None:
    """Wait until a site shows what a push has brought to its master.

    It refreshes nothing; schedules and workers do. Ends with 1 if the site does not
    show it in time, and says which refresh groups lack it.

    Example: snaptide wait lax "$(snaptide push jfk --json | jq -r '.[0].token')"
    """
    within = duration("--timeout", timeout)
    show(program, snapshots.wait_for(site, token, within, group=group))
