"""Arguments and options that many commands share."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from sites import Site, names
from sites.errors import SnaptideError
from snaptide.cli.program import Program
from snaptide.errors import BadArgument
from snaptide.settings import Settings


def complete_site(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a site; finds none if the settings cannot be read."""
    config: Path | None = ctx.find_root().params.get("config")
    try:
        there = Settings.load(config).sites
    except (SnaptideError, OSError):
        return []
    return sorted(name for name in there if name.startswith(incomplete))


def named_value(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; the value is JSON, or else text.

    Raises:
        BadArgument: there is no equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise BadArgument(f"{text!r} is not NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def duration(option: str, given: str, *, may_be_zero: bool = True) -> timedelta:
    """Read a duration like 2h.

    Raises:
        BadArgument: it is none, or no time at all; the message names the option.
    """
    # Imported late: few commands take one.
    from deferred import interval

    found = interval.duration_of(given)
    if found is None or not (found or may_be_zero):
        raise BadArgument(f"{option} takes a duration like 2h, not {given!r}.")
    return found


def by_table(option: str, given: list[str] | None) -> dict[str, str]:
    """What an option that is given as TABLE=... says, by table.

    Raises:
        BadArgument: it is not given so, or twice for a table.
        BadName: it is no name of a table.
    """
    found = {}
    for one in given or ():
        parts = names.divided(one, "=", 1)
        if len(parts) != 2:
            raise BadArgument(f"{option} {one}: write TABLE=..., as in flights=...")
        table = str(names.parse(parts[0]))
        if table in found:
            raise BadArgument(f"{option} is given twice for {table}.")
        found[table] = parts[1]
    return found


def columns_by_table(given: list[str] | None) -> dict[str, list[str]]:
    """The columns that `--columns TABLE=COLUMNS` names, by table."""
    return {
        one: [*map(names.plain, names.divided(some, ","))]
        for one, some in by_table("--columns", given).items()
    }


def _note_json(ctx: typer.Context, value: bool) -> bool:
    # Note it for errors, too: the code that prints them does not see the options.
    program = ctx.find_root().obj
    if isinstance(program, Program):
        program.json = value
    return value


#: A command gets the site itself: see `verbs.prepared`.
SiteArgument = Annotated[
    Site,
    typer.Argument(
        metavar="SITE",
        help="The site's name in snaptide.toml.",
        autocompletion=complete_site,
    ),
]

#: Of commands that are for many sites unless one is named.
SiteName = Annotated[
    str | None,
    typer.Argument(
        metavar="[SITE]",
        help="The site's name in snaptide.toml.",
        autocompletion=complete_site,
    ),
]

SiteNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SITE]...",
        help="The sites' names; default: all sites.",
        autocompletion=complete_site,
    ),
]

Tables = Annotated[
    list[str], typer.Argument(metavar="TABLE...", help="table or schema.table")
]

#: As `columns_by_table` reads it.
TableColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="TABLE=COLUMNS",
        help="The columns of a table, separated by commas; default: all; repeatable.",
    ),
]

Html = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", dir_okay=False, help="Write the report as a page."
    ),
]

Json = Annotated[
    bool,
    typer.Option("--json", help="Print the report as JSON.", callback=_note_json),
]
