"""`snaptide ddl`: changes the columns of master tables, and has sites follow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import masters
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.errors import BadArgument

SqlFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        exists=True,
        dir_okay=False,
        help="Read the statements from this file.",
    ),
]


def ddl(
    program: Program,
    site: SiteArgument,
    statements: Annotated[
        str | None,
        typer.Argument(metavar="[SQL]", help="The statements that the master runs."),
    ] = None,
    file: SqlFile = None,
) -> None:
    """Change columns of master tables, and have sites follow; or list what they follow.

    Without statements it lists those of before, and the sites that have not refreshed
    since. With some it adds, renames, drops or widens columns, and each site changes
    its snapshots by its next refresh, however long it was away. Sites of a publication
    with --no-ddl do not, and are listed. What sites could not follow is refused. For
    tables of a replication group there is snaptide group execute-ddl --and-sites.

    Example: snaptide ddl hq "ALTER TABLE flights ADD gate text"
    """
    if statements is None and file is None:
        past = masters.list_ddl(site)
        rows = [
            (one.at, one.tables, one.sites, one.staying, one.statements) for one in past
        ]
        columns = ["run", "tables", "not refreshed since", "do not follow"]
        columns += ["statements"]
        show(program, past, lambda: table(columns, rows))
        return
    show(program, masters.execute_ddl(site, one_of(statements, file)))


def one_of(statements: str | None, file: Path | None) -> str:
    """The statements of the command line, or those of a file.

    Raises:
        BadArgument: both are given or neither, or the file cannot be read.
    """
    if (statements is None) == (file is None):
        raise BadArgument("Give the statements, or a file with --file.")
    if file is None:
        return statements or ""
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise BadArgument(f"{file}: {error}", file=str(file)) from error
