"""`snaptide user`: who may use the console, and what users have done in it."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group

from sites.extras import require
from snaptide.cli.arguments import SiteNames
from snaptide.cli.confirm import Yes, confirm
from snaptide.cli.failures import end_if
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.cli.web import users_file

if TYPE_CHECKING:
    from snaptide.web.action_log import Part

app = Verbs()

#: Seconds that a list waits for a site.
_PATIENCE = 15.0


class RoleName(StrEnum):
    """The roles of the console, each of which may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


Name = Annotated[str, typer.Argument(metavar="NAME")]
File = Annotated[
    Path | None,
    typer.Option(
        "--users",
        dir_okay=False,
        help="The file of users; default: snaptide.users beside the settings.",
    ),
]


@app.command("set")
def set_(
    program: Program,
    name: Name,
    role: Annotated[RoleName, typer.Option(help="What the user may do.")],
    users: File = None,
) -> None:
    """Add a user of the console, or change role and password; asks for the password.

    Without a terminal to ask at, the password is the first line of the input.

    Example: snaptide user set anna --role operator
    """
    require("web")
    from snaptide.web.users import Role, set_user

    set_user(users_file(program, users), name, Role(role.value), _password())
    show_facts(program, name=name, role=role.value)


@app.command("list")
def list_(program: Program, users: File = None) -> None:
    """List the users of the console.

    Example: snaptide user list
    """
    require("web")
    from snaptide.web.users import read

    found = [
        {"name": name, "role": entry.role.value}
        for name, entry in read(users_file(program, users)).items()
    ]
    rows = [[*one.values()] for one in found]
    show(program, found, lambda: table(["name", "role"], rows))


@app.command(report=False)
def delete(program: Program, name: Name, users: File = None, yes: Yes = False) -> None:
    """Remove a user of the console; its sessions end at once.

    Example: snaptide user delete anna
    """
    require("web")
    from snaptide.web.users import delete_user

    confirm(f"Remove the user {name}?", yes=yes)
    delete_user(users_file(program, users), name)


@app.command()
def actions(
    program: Program,
    sites: SiteNames = None,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="Only older ones, as 2026-11-25T12:00Z; MOMENT/SITE/ID is an action.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Show only this many of the latest.")
    ] = 50,
) -> None:
    """List what users have done in the console, the latest first.

    Ends with 4 if a site cannot be asked: what was done there is missing.

    Example: snaptide user actions
    """
    require("web")
    from snaptide.web.action_log import Place, actions_of, together
    from snaptide.web.questions import Questions

    chosen = {site.name: site for site in program.chosen(sites)}
    place = Place.of(before) if before else None
    questions = Questions(max(len(chosen), 1), patience=_PATIENCE)
    answers = questions.ask_all(
        chosen, "actions", partial(actions_of, most=limit, before=place)
    )
    questions.close()
    found = together((one.value for one in answers.values() if one.value), limit)
    show(program, found, lambda: _listed(found))
    for name, answer in answers.items():
        if answer.error is not None:
            typer.echo(f"{name}: {answer.error.message}", err=True)
    end_if(unreachable=any(answer.error for answer in answers.values()))


def _listed(found: Part) -> Group:
    columns = ["begun", "user", "role", "site", "command", "outcome"]
    rows = [
        (one.begun_at, one.operator, one.role, one.site, one.command, one.outcome)
        for one in found.actions
    ]
    older = (
        []
        if found.last is None
        else [
            f"{found.older:,} older ones: snaptide user actions --before {found.last}"
        ]
    )
    return Group(table(columns, rows), *older)


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
