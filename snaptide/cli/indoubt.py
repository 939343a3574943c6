"""`snaptide indoubt`: lists and ends coordinated transactions that are in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

import synchronous
from snaptide.cli.arguments import Json, SiteName
from snaptide.cli.failures import ExitCode
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program

app = typer.Typer()

GlobalId = Annotated[
    str,
    typer.Argument(metavar="GID", help="The name that snaptide indoubt list shows."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Even against the deciding site's decision."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The report of a transaction that was ended by hand."""

    site: str
    gid: str
    done: str


@app.command("list")
def list_(ctx: typer.Context, site: SiteName, json: Json = False) -> None:
    """List the in-doubt transactions of a site; ends with 3 if there are any.

    Example: snaptide indoubt list hq
    """
    program = Program.of(ctx)
    found = synchronous.list_in_doubt(program.site(site))
    rows = [(d.gid, d.state, d.since, d.decision, d.heuristic) for d in found]
    columns = ["gid", "state", "since", "the deciding site says", "by hand"]
    show(program, found, lambda: table(columns, rows))
    if found:
        raise typer.Exit(ExitCode.ATTENTION)


@app.command()
def recover(ctx: typer.Context, site: SiteName, json: Json = False) -> None:
    """Finish transactions as their deciding site decided, as workers do every minute.

    Ends with 3 if some are left in doubt.

    Example: snaptide indoubt recover hq
    """
    program = Program.of(ctx)
    report = synchronous.recover(program.site(site))
    show(program, report, lambda: facts(report))
    if report.left:
        raise typer.Exit(ExitCode.ATTENTION)


@app.command()
def commit(
    ctx: typer.Context,
    site: SiteName,
    gid: GlobalId,
    force: Force = False,
    json: Json = False,
) -> None:
    """Commit a prepared transaction whose deciding site cannot be asked.

    Example: snaptide indoubt commit hq snaptide:0b2f...:0
    """
    program = Program.of(ctx)
    synchronous.commit_in_doubt(program.site(site), gid, force=force)
    _ended(program, site, gid, "committed")


@app.command()
def rollback(
    ctx: typer.Context,
    site: SiteName,
    gid: GlobalId,
    force: Force = False,
    json: Json = False,
) -> None:
    """Roll back a prepared transaction whose deciding site cannot be asked.

    Example: snaptide indoubt rollback hq snaptide:0b2f...:0
    """
    program = Program.of(ctx)
    synchronous.rollback_in_doubt(program.site(site), gid, force=force)
    _ended(program, site, gid, "rolled back")


@app.command()
def forget(
    ctx: typer.Context, site: SiteName, gid: GlobalId, json: Json = False
) -> None:
    """Forget a decision made by hand, or one that a lost master can never confirm.

    Example: snaptide indoubt forget hq snaptide:0b2f...:0
    """
    program = Program.of(ctx)
    synchronous.forget_in_doubt(program.site(site), gid)
    _ended(program, site, gid, "forgotten")


def _ended(program: Program, site: str, gid: str, done: str) -> None:
    report = Ended(site=site, gid=gid, done=done)
    show(program, report, lambda: facts(report))
