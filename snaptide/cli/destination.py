"""`snaptide destination`: how much waits for each destination, and how much may."""

from __future__ import annotations

from typing import Annotated

import typer

import deferred
from deferred.queues.backlog import Backlog
from snaptide.cli.arguments import SiteArgument, complete_site
from snaptide.cli.failures import end_if
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.limits import NONE, age_of, bytes_of, unless_none
from snaptide.units import duration, size

app = Verbs()

DestinationName = Annotated[
    str, typer.Argument(metavar="DESTINATION", autocompletion=complete_site)
]

COLUMNS = ["to", "transactions", "calls", "size", "oldest", "budget", ""]


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List a site's destinations; ends with 3 if one is invalid.

    Example: snaptide destination list jfk
    """
    found = deferred.list_destinations(site)
    show(program, found, lambda: table(COLUMNS, map(_row, found)))
    end_if(
        attention=any(state.state == "invalid" for one in found for state in one.states)
    )


@app.command("budget")
def budget_(
    program: Program,
    site: SiteArgument,
    destination: DestinationName,
    age: Annotated[
        str, typer.Option(help="The oldest transaction's age: 12h, 7d; none.")
    ] = NONE,
    size: Annotated[
        str, typer.Option(help="The size of the queue: 500MB, 10GB; none.")
    ] = NONE,
) -> None:
    """Set how much may wait before a destination becomes invalid.

    Example: snaptide destination budget jfk hq --age 7d --size 10GB
    """
    changed = deferred.set_budget(
        site,
        destination,
        age=unless_none(age, age_of),
        size=unless_none(size, bytes_of),
    )
    show(program, changed)


@app.command()
def validate(
    program: Program, site: SiteArgument, destination: DestinationName
) -> None:
    """Let pushes to an invalid destination go on, with all queued transactions.

    Example: snaptide destination validate jfk hq
    """
    show(program, deferred.validate_destination(site, destination))


def _row(one: Backlog) -> tuple[object, ...]:
    limits = [
        duration(one.max_lag_age.total_seconds()) if one.max_lag_age else "",
        size(one.max_lag_bytes) if one.max_lag_bytes is not None else "",
    ]
    return (
        one.destination,
        one.transactions,
        one.calls,
        size(one.bytes),
        one.oldest,
        ", ".join(filter(None, limits)) or "no limit",
        one.standing,
    )
