"""`snaptide health`: says where sites breach limits, for cron and probes."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from snaptide.cli.arguments import SiteNames
from snaptide.cli.failures import end_if
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.health import Breach, Limits, breaches
from snaptide.limits import age_of
from snaptide.status import status


def health(
    program: Program,
    sites: SiteNames = None,
    max_lag: Annotated[
        str,
        typer.Option(
            help="The longest that a change may wait for its destination, and the "
            "oldest that a refresh group may be; none."
        ),
    ] = "5m",
    max_queue: Annotated[
        int, typer.Option(min=0, help="Transactions that may wait for a destination.")
    ] = 1000,
    max_parked: Annotated[
        int, typer.Option(min=0, help="Transactions that may be parked at a site.")
    ] = 0,
    max_overdue: Annotated[
        str, typer.Option(help="The longest that a run may be overdue; none.")
    ] = "2m",
) -> None:
    """Say where sites breach limits; ends with 3 if anywhere, with 4 if one is away.

    A line for each breach, and none if all is well. A run counts as overdue after one
    minute.

    Example: snaptide health --max-lag 1h
    """
    limits = Limits(
        lag=None if max_lag == "none" else age_of(max_lag),
        queue=max_queue,
        parked=max_parked,
        overdue=None if max_overdue == "none" else age_of(max_overdue),
    )
    found = breaches(status(program.chosen(sites), alone=True), limits)
    show(program, found, lambda: Group(*map(_line, found)))
    end_if(unreachable=any(one.kind == "away" for one in found), attention=found)


def _line(one: Breach) -> Text:
    where = " ".join(filter(None, (one.site, one.kind, one.subject)))
    return Text(f"{where}: {one.what}")
