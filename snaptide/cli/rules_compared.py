"""`snaptide rules compare` and `send`: choose the old values that find conflicts."""

from __future__ import annotations

from typing import Annotated

import typer

from masters.rules import comparison
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.program import Program
from snaptide.cli.rules import TableName, app
from snaptide.cli.rules_shown import changed

Columns = Annotated[list[str] | None, typer.Argument(metavar="[COLUMN]...")]
Operation = Annotated[str, typer.Option(help="update, delete or * for both.")]


@app.command()
def compare(
    program: Program,
    site: SiteArgument,
    table: TableName,
    columns: Columns = None,
    operation: Operation = "*",
    off: Annotated[bool, typer.Option("--off", help="Do not compare them.")] = False,
    row_version: Annotated[
        str | None,
        typer.Option(help="Compare only this column; '' compares all again."),
    ] = None,
) -> None:
    """Choose which old values are compared to find conflicts.

    Example: snaptide rules compare hq flights note --off
    """
    with changed(program, site):
        if row_version is not None:
            comparison.set_row_version(site, table, row_version or None)
        if columns:
            comparison.compare_old_values(
                site, table, columns, operation=operation, compare=not off
            )


@app.command()
def send(
    program: Program,
    site: SiteArgument,
    table: TableName,
    columns: Columns = None,
    operation: Operation = "*",
    off: Annotated[bool, typer.Option("--off", help="Do not send them.")] = False,
) -> None:
    """Choose which old values sites send; others cannot be compared.

    Example: snaptide rules send hq flights photo --off
    """
    with changed(program, site):
        comparison.send_old_values(
            site, table, columns or [], operation=operation, send=not off
        )
