"""`snaptide indoubt`: lists and ends coordinated transactions that are in doubt."""

from __future__ import annotations

from typing import Annotated

import typer

import synchronous
from sites import Site
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs

app = Verbs()

GlobalId = Annotated[
    str,
    typer.Argument(metavar="GID", help="The name that snaptide indoubt list shows."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Even against the deciding site's decision."),
]


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List the in-doubt transactions of a site; ends with 3 if there are any.

    Example: snaptide indoubt list hq
    """
    found = synchronous.list_in_doubt(site)
    rows = [(d.gid, d.state, d.since, d.decision, d.heuristic) for d in found]
    columns = ["gid", "state", "since", "the deciding site says", "by hand"]
    show(program, found, lambda: table(columns, rows))
    end_if(attention=found)


@app.command()
def recover(program: Program, site: SiteArgument) -> None:
    """Finish transactions as their deciding site decided, as workers do every minute.

    Ends with 3 if some are left in doubt.

    Example: snaptide indoubt recover hq
    """
    report = synchronous.recover(site)
    show(program, report)
    end_if(attention=report.left)


@app.command()
def commit(
    program: Program, site: SiteArgument, gid: GlobalId, force: Force = False
) -> None:
    """Commit a prepared transaction whose deciding site cannot be asked.

    Example: snaptide indoubt commit hq snaptide:0b2f...:0
    """
    synchronous.commit_in_doubt(site, gid, force=force)
    _ended(program, site, gid, "committed")


@app.command()
def rollback(
    program: Program, site: SiteArgument, gid: GlobalId, force: Force = False
) -> None:
    """Roll back a prepared transaction whose deciding site cannot be asked.

    Example: snaptide indoubt rollback hq snaptide:0b2f...:0
    """
    synchronous.rollback_in_doubt(site, gid, force=force)
    _ended(program, site, gid, "rolled back")


@app.command()
def forget(program: Program, site: SiteArgument, gid: GlobalId) -> None:
    """Forget a decision made by hand, or one that a lost master can never confirm.

    Example: snaptide indoubt forget hq snaptide:0b2f...:0
    """
    synchronous.forget_in_doubt(site, gid)
    _ended(program, site, gid, "forgotten")


def _ended(program: Program, site: Site, gid: str, done: str) -> None:
    show_facts(program, site=site.name, gid=gid, done=done)
