"""`snaptide destination`: how much waits for each destination, and how much may."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

import deferred
from deferred.interval import check_interval, seconds_of
from deferred.queues.backlog import Backlog
from snaptide.cli.arguments import Json, SiteName, complete_site
from snaptide.cli.failures import ExitCode
from snaptide.cli.output import duration, facts, show, size, table
from snaptide.cli.program import Program
from snaptide.errors import BadArgument

app = typer.Typer()

DestinationName = Annotated[
    str, typer.Argument(metavar="DESTINATION", autocompletion=complete_site)
]

COLUMNS = ["to", "transactions", "calls", "size", "oldest", "budget", ""]
_NO_LIMIT = "none"
#: The largest number that the catalog can store.
_MOST = 2**63 - 1
_UNITS = {"B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


@app.command("list")
def list_(ctx: typer.Context, site: SiteName, json: Json = False) -> None:
    """List a site's destinations; ends with 3 if one is invalid.

    Example: snaptide destination list jfk
    """
    program = Program.of(ctx)
    found = deferred.list_destinations(program.site(site))
    show(program, found, lambda: table(COLUMNS, map(_row, found)))
    if any(state.state == "invalid" for one in found for state in one.states):
        raise typer.Exit(ExitCode.ATTENTION)


@app.command("budget")
def budget_(
    ctx: typer.Context,
    site: SiteName,
    destination: DestinationName,
    age: Annotated[
        str, typer.Option(help="The oldest transaction's age: 12h, 7d; none.")
    ] = _NO_LIMIT,
    size: Annotated[
        str, typer.Option(help="The size of the queue: 500MB, 10GB; none.")
    ] = _NO_LIMIT,
    json: Json = False,
) -> None:
    """Set how much may wait before a destination becomes invalid.

    Example: snaptide destination budget jfk hq --age 7d --size 10GB
    """
    program = Program.of(ctx)
    changed = deferred.set_budget(
        program.site(site), destination, age=_age(age), size=_bytes(size)
    )
    show(program, changed, lambda: facts(changed))


@app.command()
def validate(
    ctx: typer.Context,
    site: SiteName,
    destination: DestinationName,
    json: Json = False,
) -> None:
    """Let pushes to an invalid destination go on, with all queued transactions.

    Example: snaptide destination validate jfk hq
    """
    program = Program.of(ctx)
    changed = deferred.validate_destination(program.site(site), destination)
    show(program, changed, lambda: facts(changed))


def standing(one: Backlog) -> str:
    """The states of a destination, or its last error, in a few words."""
    said = "; ".join(f"{state.state}: {state.reason}" for state in one.states)
    return said or one.last_error or ""


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
        standing(one),
    )


def _age(text: str) -> timedelta | None:
    if text == _NO_LIMIT:
        return None
    check_interval(text)
    seconds = seconds_of(text)
    if seconds is None:
        raise BadArgument(f"{text!r} is not a duration.")
    return timedelta(seconds=seconds)


def _bytes(text: str) -> int | None:
    if text == _NO_LIMIT:
        return None
    number = text.rstrip("kMGTB ")
    unit = text[len(number) :].strip() or "B"
    if not number.isdecimal() or unit not in _UNITS:
        raise BadArgument(f"{text!r} is not a size; write 500MB or 10GB.")
    found = int(number) * _UNITS[unit]
    if found > _MOST:
        raise BadArgument(f"{text!r} is more than a database can hold.")
    return found
