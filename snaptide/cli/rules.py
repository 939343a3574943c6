"""`snaptide rules`: sets the rules that find and settle conflicts at a master."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from masters import rules
from masters.analysis import stamps
from masters.resolution import METHODS
from masters.rules import comparison
from sites import Site
from snaptide import rules_listed
from snaptide.cli.arguments import SiteArgument, named_value
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs

app = Verbs()

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
Columns = Annotated[list[str] | None, typer.Argument(metavar="[COLUMN]...")]
Operation = Annotated[str, typer.Option(help="update, delete or * for both.")]


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List column groups and rules of a master.

    Example: snaptide rules list hq
    """
    found = rules.list_rules(site)
    show_rules(program, found)


@app.command()
def group(
    program: Program,
    site: SiteArgument,
    table: TableName,
    name: GroupName,
    columns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COLUMN]...", help="Without columns, the group is dropped."
        ),
    ] = None,
) -> None:
    """Make columns a group whose conflicts are decided together.

    Example: snaptide rules group hq flights delays dep_delay arr_delay
    """
    made = rules.set_column_group(site, table, name, columns or [])
    show_rules(program, [made])


@app.command()
def add(
    program: Program,
    site: SiteArgument,
    table: TableName,
    group: GroupName,
    method: MethodName,
    parameters: Parameters = None,
    sequence: Place = None,
) -> None:
    """Settle update conflicts of a column group by a method.

    The master tries the methods in their order until one decides.

    Example: snaptide rules add hq flights delays latest_timestamp -p column=changed_at
    """
    with changed(program, site):
        rules.add_update_resolution(
            site,
            table,
            group,
            method,
            sequence_no=sequence,
            parameters=_given(parameters),
        )


@app.command()
def remove(
    program: Program,
    site: SiteArgument,
    table: TableName,
    group: GroupName,
    sequence: Annotated[int, typer.Argument(metavar="PLACE")],
) -> None:
    """Remove one rule of a column group.

    Example: snaptide rules remove hq flights delays 1
    """
    with changed(program, site):
        rules.drop_update_resolution(site, table, group, sequence)


@app.command("add-unique")
def add_unique(
    program: Program,
    site: SiteArgument,
    table: TableName,
    constraint: Constraint,
    method: MethodName,
    parameters: Parameters = None,
    sequence: Place = None,
) -> None:
    """Settle uniqueness conflicts of a constraint by a method.

    Example: snaptide rules add-unique hq planes planes_name append_site_name -p
    column=name
    """
    with changed(program, site):
        rules.add_unique_resolution(
            site,
            table,
            constraint,
            method,
            sequence_no=sequence,
            parameters=_given(parameters),
        )


@app.command("add-delete")
def add_delete(
    program: Program,
    site: SiteArgument,
    table: TableName,
    method: MethodName,
    parameters: Parameters = None,
    sequence: Place = None,
) -> None:
    """Settle delete conflicts of a table by a method.

    Example: snaptide rules add-delete hq flights restore
    """
    with changed(program, site):
        rules.add_delete_resolution(
            site,
            table,
            method,
            sequence_no=sequence,
            parameters=_given(parameters),
        )


@app.command("remove-unique")
def remove_unique(
    program: Program,
    site: SiteArgument,
    table: TableName,
    constraint: Constraint,
    sequence: Annotated[int, typer.Argument(metavar="PLACE")],
) -> None:
    """Remove one rule of a constraint.

    Example: snaptide rules remove-unique hq planes planes_name 1
    """
    with changed(program, site):
        rules.drop_unique_resolution(site, table, constraint, sequence)


@app.command("remove-delete")
def remove_delete(
    program: Program,
    site: SiteArgument,
    table: TableName,
    sequence: Annotated[int, typer.Argument(metavar="PLACE")],
) -> None:
    """Remove one rule for delete conflicts.

    Example: snaptide rules remove-delete hq flights 1
    """
    with changed(program, site):
        rules.drop_delete_resolution(site, table, sequence)


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


def _given(parameters: list[str] | None) -> dict[str, Any]:
    return dict(map(named_value, parameters or []))


@contextmanager
def changed(program: Program, master: Site) -> Iterator[None]:
    """Let the block change a master, then show its rules and new warnings."""
    before = rules.list_rules(master)
    yield
    since = rules.list_rules(master)
    show_rules(program, since)
    _warn(master, before, since)


def _warn(
    master: Site, before: list[rules.TableRules], since: list[rules.TableRules]
) -> None:
    """Print problems with the stamp columns that new rules decide by."""
    known = [(one.table, rule) for one in before for rule in one.rules]
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for finding in stamps.check(master, since):
        if (finding.table, finding.rule) not in known:
            console.print(Text(f"{finding.table}: {finding.reason}."))


def show_rules(program: Program, found: list[rules.TableRules]) -> None:
    """Print column groups and rules."""
    show(
        program,
        found,
        lambda: table(rules_listed.COLUMNS, rules_listed.rows(found)),
    )
