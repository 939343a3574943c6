"""`snaptide user`: who may use the console."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sites.extras import require
from snaptide.cli.arguments import Json
from snaptide.cli.confirm import Yes, confirm
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program
from snaptide.cli.web import users_file

app = typer.Typer()


class RoleName(StrEnum):
    """The roles of the console, each of which may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A user as commands show one: without the password's hash."""

    name: str
    role: str


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
    ctx: typer.Context,
    name: Name,
    role: Annotated[RoleName, typer.Option(help="What the user may do.")],
    users: File = None,
    json: Json = False,
) -> None:
    """Add a user of the console, or change role and password; asks for the password.

    Without a terminal to ask at, the password is the first line of the input.

    Example: snaptide user set anna --role operator
    """
    require("web")
    from snaptide.web.users import Role, set_user

    program = Program.of(ctx)
    set_user(users_file(program, users), name, Role(role.value), _password())
    report = Shown(name=name, role=role.value)
    show(program, report, lambda: facts(report))


@app.command("list")
def list_(ctx: typer.Context, users: File = None, json: Json = False) -> None:
    """List the users of the console.

    Example: snaptide user list
    """
    require("web")
    from snaptide.web.users import read

    program = Program.of(ctx)
    found = [
        Shown(name=name, role=entry.role.value)
        for name, entry in read(users_file(program, users)).items()
    ]
    rows = [(one.name, one.role) for one in found]
    show(program, found, lambda: table(["name", "role"], rows))


@app.command()
def delete(
    ctx: typer.Context, name: Name, users: File = None, yes: Yes = False
) -> None:
    """Remove a user of the console; its sessions end at once.

    Example: snaptide user delete anna
    """
    require("web")
    from snaptide.web.users import delete_user

    confirm(f"Remove the user {name}?", yes=yes)
    delete_user(users_file(Program.of(ctx), users), name)


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
