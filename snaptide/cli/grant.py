"""`snaptide grant`: lets a site read a publication of a master."""

from __future__ import annotations

from typing import Annotated

import typer

import masters
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.output import show
from snaptide.cli.plan import parameters
from snaptide.cli.program import Program
from snaptide.cli.publication import Name

ToSite = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the site that reads it.")
]


def grant(
    program: Program,
    site: SiteArgument,
    publication: Name,
    name: ToSite,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A value for a parameter of the publication; repeatable.",
        ),
    ] = None,
    login: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help="The role as which the site connects; default: of the site's name.",
        ),
    ] = None,
    updatable: Annotated[
        bool, typer.Option("--updatable", help="The site may push changes of its rows.")
    ] = False,
) -> None:
    """Let a site read a publication of a master, for some values.

    The master binds the values to the login: whatever that asks, it sees rows with
    these values and no others. The login exists, and may do nothing else. Granted
    again, the publication is read with the new values, and the next refresh compares
    all rows.

    With --updatable it changes just these rows, too, and may create temporary tables. A
    transaction that changes other rows, or makes a row of another site, is parked.

    Example: snaptide grant hq sales store3 --param store=3

    Example: snaptide grant hq sales store3 --param store=3 --login s3 --updatable
    """
    values = parameters(param, "--param")
    made = masters.grant(
        site, publication, name, login=login, parameters=values, updatable=updatable
    )
    show(program, made)
