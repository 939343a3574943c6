"""`snaptide site retire`: takes a site out of service."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from sites.words import counted
from snaptide.cli.apply import print_step
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.cli.site import app
from snaptide.plan import Retired
from snaptide.plan import retire as take_out


@app.command()
def retire(
    program: Program,
    site: SiteArgument,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even if changes are lost or stay parked, or the site is away.",
        ),
    ] = False,
) -> None:
    """Take a site out of service: push, drop its snapshots, unregister it everywhere.

    It refuses if changes would be lost, and says which. Run it again if it fails. Ends
    with 3 if something was lost or another site could not be asked.

    Example: snaptide site retire store2
    """
    done = take_out(
        site,
        force=force,
        on_step=None if program.json else print_step,
    )
    show(program, done, lambda: _told(done))
    end_if(attention=done.lost or done.away)


def _told(done: Retired) -> Group:
    said = [
        f"{done.site} is out of service; pushed: {counted(done.pushed, 'transaction')}."
    ]
    said += [
        f"{master} has forgotten {', '.join(names)}."
        for master, names in done.unregistered.items()
    ]
    said += [f"Given up: {one}." for one in done.lost]
    if done.away:
        said.append(
            f"Not asked, since they are away: {', '.join(done.away)}. Run the command "
            "again when they are back."
        )
    said.append(f"To remove its schema: snaptide site downgrade {done.site} base")
    return Group(*map(Text, said))
