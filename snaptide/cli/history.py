"""`snaptide history`: tells the life of a row over all sites."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

import deferred
from deferred import History
from snaptide.cli.arguments import complete_site
from snaptide.cli.failures import end_if
from snaptide.cli.output import cell, show, table
from snaptide.cli.program import Program
from snaptide.row_words import key_of, row_of, values, what


def history(
    program: Program,
    name: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="The master's table, as schema.table."),
    ],
    key: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...", help="The key's values in order, or COLUMN=VALUE."
        ),
    ],
    master: Annotated[
        str | None,
        typer.Option(
            help="Only changes that go to this master.", autocompletion=complete_site
        ),
    ] = None,
) -> None:
    """Show the history of a row at all sites; ends with 3 if a site was away.

    Example: snaptide history flights 2013-01-01 JFK UA
    """
    sites = program.directory.values()
    told = deferred.history(sites, name, key_of(key), master=master)
    show(program, told, lambda: _whole(told))
    end_if(attention=told.away)


def _whole(told: History) -> Group:
    keys = "; ".join(", ".join(key) for key in told.keys)
    parts: list[Text | Table] = [
        Text(f"{told.table}, {', '.join(told.key_columns)}: {keys}", style="bold"),
        table(
            ["when", "site", "who", "what", "values"],
            [
                (one.at, one.site, one.user, what(one, cell), values(one))
                for one in told.events
            ],
        ),
        Text(),
        Text("Now:", style="bold"),
        table(
            ["site", "table", "row"],
            [(one.site, one.name, row_of(one.row)) for one in told.now],
        ),
    ]
    if told.away:
        away = f"These sites did not answer: {', '.join(told.away)}"
        parts += [Text(), Text(away, style="bold red")]
    return Group(*parts)
