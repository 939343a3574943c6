"""`snaptide group suspend`, `resume` and `execute-ddl`: quiesces groups for DDL."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

import groups
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.ddl import SqlFile, one_of
from snaptide.cli.failures import end_if
from snaptide.cli.group import GroupName, app, show_changed
from snaptide.cli.output import show
from snaptide.cli.program import Program


@app.command()
def suspend(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    by: Annotated[
        str | None, typer.Option(help="The name that users see; default: your login.")
    ] = None,
) -> None:
    """Close a group's tables to users, and push until its masters are equal.

    Run it at the master definition site; ends with 3 if error queues are not empty.

    Example: snaptide group suspend hq airline
    """
    report = groups.suspend(site, group, by=by or _login())
    show(program, report)
    end_if(attention=any(report.errors.values()))


@app.command()
def resume(program: Program, site: SiteArgument, group: GroupName) -> None:
    """Open a group's tables to users again.

    Example: snaptide group resume hq airline
    """
    show_changed(program, groups.resume(site, group))


@app.command()
def execute_ddl(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    statements: Annotated[
        str | None,
        typer.Argument(metavar="[SQL]", help="The statements that all masters run."),
    ] = None,
    file: SqlFile = None,
    and_sites: Annotated[
        bool,
        typer.Option(
            "--and-sites",
            help="Have snapshots follow by their next refresh, as with snaptide ddl.",
        ),
    ] = False,
) -> None:
    """Run DDL at all masters of a group, or at none of them.

    It can add columns that may be null or have a constant default while users work; for
    any other DDL the group has to be suspended.

    Example: snaptide group execute-ddl hq airline "ALTER TABLE flights ADD gate text"
    """
    text = one_of(statements, file)
    show_changed(program, groups.execute_ddl(site, group, text, and_sites=and_sites))


def _login() -> str | None:
    """The user's login; None in a container whose user id has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None
