"""`snaptide snapshot`: administers the snapshots of a site."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

import groups
import snapshots
from sites import names
from snaptide.cli.arguments import Json, SiteName, complete_site
from snaptide.cli.failures import ExitCode
from snaptide.cli.log import Dropped
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="name or schema.name")]


@app.command()
def create(
    ctx: typer.Context,
    site: SiteName,
    name: Name,
    master: Annotated[
        str, typer.Option(help="The master site.", autocompletion=complete_site)
    ],
    table: Annotated[
        str | None,
        typer.Option(help="The master table; default: the one with that name."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The refresh group; default: a new one for it.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="An immutable condition that selects the rows.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="The columns, separated by commas; default: all.")
    ] = None,
    updatable: Annotated[
        bool, typer.Option("--updatable", help="Let users change it.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a snapshot; its first refresh fills it.

    Example: snaptide snapshot create jfk flights --master hq --group airport
    --where "origin = 'JFK'" --updatable
    """
    program = Program.of(ctx)
    made = snapshots.create(
        program.site(site),
        name,
        master=master,
        table=table,
        group=group,
        where=where,
        columns=_split(columns),
        updatable=updatable,
    )
    show(program, made, lambda: facts(made))


@app.command("list")
def list_(ctx: typer.Context, site: SiteName, json: Json = False) -> None:
    """List the snapshots of a site.

    Example: snaptide snapshot list jfk
    """
    program = Program.of(ctx)
    listed = snapshots.list_snapshots(program.site(site))
    rows = [
        (
            one.name,
            one.group,
            f"{one.master}:{one.table}",
            one.condition,
            one.updatable,
            one.synchronous,
            one.last_refresh,
            one.undelivered_calls,
        )
        for one in listed
    ]
    columns = [
        "snapshot",
        "group",
        "of",
        "where",
        "updatable",
        "synchronous",
        "refreshed",
        "queued",
    ]
    show(program, listed, lambda: table(columns, rows))


@app.command("show")
def show_(ctx: typer.Context, site: SiteName, name: Name, json: Json = False) -> None:
    """Show one snapshot.

    Example: snaptide snapshot show jfk flights
    """
    program = Program.of(ctx)
    found = snapshots.describe_snapshot(program.site(site), name)
    show(program, found, lambda: facts(found))


class Propagation(StrEnum):
    """How changes of a site reach the master."""

    SYNCHRONOUS = "synchronous"
    ASYNCHRONOUS = "asynchronous"


@app.command()
def alter(
    ctx: typer.Context,
    site: SiteName,
    name: Name,
    propagation: Annotated[
        Propagation,
        typer.Option(help="With the user's commit, or later by a push."),
    ],
    json: Json = False,
) -> None:
    """Change how a snapshot and its whole refresh group propagate changes.

    Example: snaptide snapshot alter jfk flights --propagation synchronous
    """
    program = Program.of(ctx)
    report = snapshots.alter_propagation(
        program.site(site),
        name,
        synchronous=propagation is Propagation.SYNCHRONOUS,
    )
    show(program, report, lambda: facts(report))


@app.command("switch-master")
def switch_master(
    ctx: typer.Context,
    site: SiteName,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The refresh group, or a snapshot.")
    ],
    to: Annotated[
        str, typer.Option(help="The new master.", autocompletion=complete_site)
    ],
    json: Json = False,
) -> None:
    """Refresh a group from another master of its replication group from now on.

    The former master may be away. Queued changes go to the new one, and changes that
    were sent before are not applied twice. Ends with 3 if the former master does not
    know of the switch yet.

    Example: snaptide snapshot switch-master jfk airport --to lax
    """
    program = Program.of(ctx)
    report = groups.switch_master(program.site(site), group, to=to)
    show(program, report, lambda: facts(report))
    if not report.unregistered:
        raise typer.Exit(ExitCode.ATTENTION)


@app.command()
def drop(
    ctx: typer.Context,
    site: SiteName,
    name: Name,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Drop it even if changes are not delivered, or the master is away.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Drop a snapshot; the master table stays.

    Example: snaptide snapshot drop jfk flights
    """
    program = Program.of(ctx)
    snapshots.drop(program.site(site), name, force=force)
    report = Dropped(site=site, dropped=name)
    show(program, report, lambda: facts(report))


def _split(columns: str | None) -> list[str] | None:
    if columns is None:
        return None
    return [names.plain(one) for one in names.divided(columns, ",")]
