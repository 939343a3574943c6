"""`snaptide procedure`: chooses the procedures that calls from other sites may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

import deferred
from deferred import AllowedProcedure
from deferred.procedures import routines
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs

app = Verbs()

ProcedureName = Annotated[
    str, typer.Argument(metavar="NAME", help="procedure or schema.procedure.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedures:
    """The procedures and routines that calls may run at a site."""

    #: procedures and functions of its database
    allowed: tuple[AllowedProcedure, ...]
    #: Python routines that this machine knows, for pushes by this machine
    registered: tuple[str, ...]


@app.command()
def allow(program: Program, site: SiteArgument, name: ProcedureName) -> None:
    """Let calls from other sites run a procedure or function of a site's database.

    Example: snaptide procedure allow hq billing.close_month
    """
    show(program, deferred.allow_procedure(site, name))


@app.command()
def revoke(program: Program, site: SiteArgument, name: ProcedureName) -> None:
    """Do not let calls from other sites run a procedure any more.

    Example: snaptide procedure revoke hq billing.close_month
    """
    was = deferred.revoke_procedure(site, name)
    show_facts(program, name=name, was_allowed=was)


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List what calls may run at a site: its procedures, and this machine's routines.

    Example: snaptide procedure list hq
    """
    report = Procedures(
        allowed=tuple(deferred.list_procedures(site)),
        registered=tuple(routines.REGISTRY.names()),
    )
    rows = [
        (one.name, "database" if one.present else "dropped", one.allowed_by)
        for one in report.allowed
    ]
    rows += [(name, "routine", "") for name in report.registered]
    show(program, report, lambda: table(["name", "kind", "allowed by"], rows))
