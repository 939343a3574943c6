"""`snaptide publication`, and the options that say what is in one."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import masters
from snaptide.cli.arguments import (
    SiteArgument,
    TableColumns,
    Tables,
    by_table,
    columns_by_table,
)
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs

app = Verbs()

Name = Annotated[
    str, typer.Argument(metavar="PUBLICATION", help="The publication's name.")
]
OtherTables = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TABLE...]", help="table or schema.table"),
]
Ddl = typer.Option(
    "--ddl/--no-ddl",
    help="Whether its sites follow snaptide ddl, or keep the columns that they have.",
)
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE=CONDITION",
        help="Which rows of a table a site gets: column = :parameter, or follows "
        "PARENT, several joined by AND; default: all; repeatable.",
    ),
]


@app.command()
def create(
    program: Program,
    site: SiteArgument,
    name: Name,
    tables: Tables,
    where: Where = None,
    columns: TableColumns = None,
    ddl: Annotated[bool, Ddl] = True,
) -> None:
    """Name a set of tables, rows and columns of a master that sites may be given.

    Nobody may read anything more by it until it is granted.

    Example: snaptide publication create hq sales sale --where "sale=store_id = :store"
    """
    made = masters.create_publication(
        site,
        name,
        tables,
        where=by_table("--where", where),
        columns=columns_by_table(columns),
        ddl=ddl,
    )
    show(program, made, lambda: _shown(made))


@app.command()
def alter(
    program: Program,
    site: SiteArgument,
    name: Name,
    tables: OtherTables = None,
    where: Where = None,
    columns: TableColumns = None,
    ddl: Annotated[bool | None, Ddl] = None,
) -> None:
    """Give a publication other tables, rows or columns, in the place of those it has.

    Sites to which it is granted may read just these from then on, and their next
    refresh compares all rows. --ddl and --no-ddl alone leave tables, rows and columns
    as they are; without either, sites follow DDL or not, as before.

    Example: snaptide publication alter hq sales sale product
    --where "sale=store_id = :store"

    Example: snaptide publication alter hq sales --no-ddl
    """
    made = masters.alter_publication(
        site,
        name,
        tables or (),
        where=by_table("--where", where),
        columns=columns_by_table(columns),
        ddl=ddl,
    )
    show(program, made, lambda: _shown(made))


@app.command()
def drop(program: Program, site: SiteArgument, name: Name) -> None:
    """Forget a publication that is granted to no site.

    Example: snaptide publication drop hq sales
    """
    masters.drop_publication(site, name)
    show_facts(program, site=site.name, dropped=name)


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List the publications of a master.

    Example: snaptide publication list hq
    """
    found = masters.list_publications(site)
    rows = [
        (one.name, [t.table for t in one.tables], [g.site for g in one.grants], one.ddl)
        for one in found
    ]
    columns = ["publication", "tables", "sites", "sites follow ddl"]
    show(program, found, lambda: table(columns, rows))


@app.command("show")
def show_(program: Program, site: SiteArgument, name: Name) -> None:
    """Show the tables of a publication, and the sites to which it is granted.

    Example: snaptide publication show hq sales
    """
    found = masters.show_publication(site, name)
    show(program, found, lambda: _shown(found))


def _shown(found: masters.Publication) -> RenderableType:
    tables = [
        (one.table, one.where or "all rows", one.columns or "all")
        for one in found.tables
    ]
    grants = [
        (
            one.site,
            one.login,
            [f"{k}={v}" for k, v in one.parameters.items()],
            one.updatable,
        )
        for one in found.grants
    ]
    follow = "follow" if found.ddl else "do not follow"
    return Group(
        Text(f"Sites {follow} DDL."),
        table(["table", "rows", "columns"], tables),
        table(["site", "login", "parameters", "updatable"], grants),
    )
