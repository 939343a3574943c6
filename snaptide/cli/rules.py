"""`snaptide rules`: sets the rules that find and settle conflicts at a master."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from masters import rules
from masters.resolution import METHODS
from snaptide.cli.arguments import Json, SiteName, named_value
from snaptide.cli.program import Program
from snaptide.cli.rules_shown import changed, show_rules

app = typer.Typer()

TableName = Annotated[str, typer.Argument(metavar="TABLE")]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="A column group.")]
Constraint = Annotated[
    str, typer.Argument(metavar="CONSTRAINT", help="A primary key or unique index.")
]
MethodName = Annotated[str, typer.Argument(help=f"One of {', '.join(METHODS)}.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter",
        "-p",
        metavar="NAME=VALUE",
        help="A parameter; JSON, otherwise text.",
    ),
]
Place = Annotated[
    int | None,
    typer.Option(min=1, help="The rule's place; default: the next free one."),
]


@app.command("list")
def list_(ctx: typer.Context, site: SiteName, json: Json = False) -> None:
    """List column groups and rules of a master.

    Example: snaptide rules list hq
    """
    program = Program.of(ctx)
    found = rules.list_rules(program.site(site))
    show_rules(program, found)


@app.command()
def group(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    name: GroupName,
    columns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COLUMN]...", help="Without columns, the group is dropped."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make columns a group whose conflicts are decided together.

    Example: snaptide rules group hq flights delays dep_delay arr_delay
    """
    program = Program.of(ctx)
    made = rules.set_column_group(program.site(site), table, name, columns or [])
    show_rules(program, [made])


@app.command()
def add(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    group: GroupName,
    method: MethodName,
    parameters: Parameters = None,
    sequence: Place = None,
    json: Json = False,
) -> None:
    """Settle update conflicts of a column group by a method.

    The master tries the methods in their order until one decides.

    Example: snaptide rules add hq flights delays latest_timestamp -p column=changed_at
    """
    with changed(ctx, site) as master:
        rules.add_update_resolution(
            master,
            table,
            group,
            method,
            sequence_no=sequence,
            parameters=_given(parameters),
        )


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
    with changed(ctx, site) as master:
        rules.drop_update_resolution(master, table, group, sequence)


@app.command("add-unique")
def add_unique(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    constraint: Constraint,
    method: MethodName,
    parameters: Parameters = None,
    sequence: Place = None,
    json: Json = False,
) -> None:
    """Settle uniqueness conflicts of a constraint by a method.

    Example: snaptide rules add-unique hq planes planes_name append_site_name -p
    column=name
    """
    with changed(ctx, site) as master:
        rules.add_unique_resolution(
            master,
            table,
            constraint,
            method,
            sequence_no=sequence,
            parameters=_given(parameters),
        )


@app.command("add-delete")
def add_delete(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    method: MethodName,
    parameters: Parameters = None,
    sequence: Place = None,
    json: Json = False,
) -> None:
    """Settle delete conflicts of a table by a method.

    Example: snaptide rules add-delete hq flights restore
    """
    with changed(ctx, site) as master:
        rules.add_delete_resolution(
            master,
            table,
            method,
            sequence_no=sequence,
            parameters=_given(parameters),
        )


@app.command("remove-unique")
def remove_unique(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    constraint: Constraint,
    sequence: Annotated[int, typer.Argument(metavar="PLACE")],
    json: Json = False,
) -> None:
    """Remove one rule of a constraint.

    Example: snaptide rules remove-unique hq planes planes_name 1
    """
    with changed(ctx, site) as master:
        rules.drop_unique_resolution(master, table, constraint, sequence)


@app.command("remove-delete")
def remove_delete(
    ctx: typer.Context,
    site: SiteName,
    table: TableName,
    sequence: Annotated[int, typer.Argument(metavar="PLACE")],
    json: Json = False,
) -> None:
    """Remove one rule for delete conflicts.

    Example: snaptide rules remove-delete hq flights 1
    """
    with changed(ctx, site) as master:
        rules.drop_delete_resolution(master, table, sequence)


def _given(parameters: list[str] | None) -> dict[str, Any]:
    return dict(map(named_value, parameters or []))
