"""`snaptide rules`: how conflicts are settled at a master."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any

import typer

from masters import rules
from masters.resolution import METHODS
from snaptide.cli.arguments import Json, SiteName
from snaptide.cli.output import show
from snaptide.cli.output import table as table_of
from snaptide.cli.program import Program
from snaptide.errors import BadArgument

app = typer.Typer(help="Rules that settle conflicts, per column group.")

TableName = Annotated[str, typer.Argument(metavar="TABLE")]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="A column group.")]


@app.command("list")
def list_(ctx: typer.Context, site: SiteName, json: Json = False) -> None:
    """List column groups and rules of a master.

    Example: snaptide rules list hq
    """
    program = Program.of(ctx)
    found = rules.list_rules(program.site(site))
    _show(program, found)


@app.command()
def group(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    name: GroupName,
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="[COLUMN]...", help="None: drop it.")
    ] = None,
    json: Json = False,
) -> None:
    """Make columns a group whose conflicts are decided together.

    Example: snaptide rules group hq flights delays dep_delay arr_delay
    """
    program = Program.of(ctx)
    made = rules.set_column_group(program.site(site), table, name, columns or [])
    _show(program, [made])


@app.command()
def add(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    group: GroupName,
    method: Annotated[str, typer.Argument(help=f"One of {', '.join(METHODS)}.")],
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", metavar="NAME=VALUE", help="JSON, or else text."
        ),
    ] = None,
    sequence: Annotated[
        int | None, typer.Option(min=1, help="Its place; else the next free one.")
    ] = None,
    json: Json = False,
) -> None:
    """Settle update conflicts of a column group by a method.

    Methods are tried in their order until one decides.

    Example: snaptide rules add hq flights delays latest_timestamp -p column=changed_at
    """
    program = Program.of(ctx)
    chosen = program.site(site)
    rules.add_update_resolution(
        chosen,
        table,
        group,
        method,
        sequence_no=sequence,
        parameters=dict(_parameter(text) for text in parameters or []),
    )
    _show(program, rules.list_rules(chosen))


@app.command()
def remove(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    group: GroupName,
    sequence: Annotated[int, typer.Argument(metavar="PLACE")],
    json: Json = False,
) -> None:
    """Remove one rule of a column group.

    Example: snaptide rules remove hq flights delays 1
    """
    program = Program.of(ctx)
    chosen = program.site(site)
    rules.drop_update_resolution(chosen, table, group, sequence)
    _show(program, rules.list_rules(chosen))


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadArgument(f"{text!r} is not NAME=VALUE.")
    try:
        return name, json_text.loads(value)
    except ValueError:
        return name, value


def _show(program: Program, found: list[rules.TableRules]) -> None:
    show(program, found, lambda: table_of(_COLUMNS, _rows(found)))


_COLUMNS = ["table", "conflict", "of", "columns", "place", "method", "parameters"]


def _rows(found: list[rules.TableRules]) -> list[list[object]]:
    rows: list[list[object]] = []
    for one in found:
        where = str(one.table)
        ruled = {rule.column_group for rule in one.rules}
        rows += [
            [where, "update", name, columns, None, "none yet", None]
            for name, columns in one.groups.items()
            if name not in ruled
        ]
        rows += [
            [
                where,
                rule.kind.value,
                rule.column_group or rule.constraint,
                one.groups.get(rule.column_group or "", ()),
                rule.sequence_no,
                rule.method,
                json_text.dumps(dict(rule.parameters)),
            ]
            for rule in one.rules
        ]
    return rows
