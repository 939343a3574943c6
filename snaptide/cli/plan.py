"""`snaptide plan`: shows what would make a site what a file says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from snaptide.cli.failures import end_if
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.errors import BadArgument
from snaptide.plan import Plan, Step, read
from snaptide.plan import plan as compare

SiteFileName = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A TOML file, as snaptide export prints it.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="The value of ${NAME} in the file; repeatable.",
    ),
]


def plan(program: Program, file: SiteFileName, values: Set = None) -> None:
    """Show what would make a site what a file says; ends with 3 if anything.

    Nothing is changed. Each line is a command that you may run yourself.

    Example: snaptide plan store.toml --set store=3
    """
    found = compare(program.directory, read(file, parameters(values)))
    show(program, found, lambda: _told(found))
    end_if(attention=not found.settled)


def parameters(given: Sequence[str] | None, option: str = "--set") -> dict[str, str]:
    """The values that an option gives as NAME=VALUE, as they were written.

    Raises:
        BadArgument: there is no equals sign, or a name is given twice.
    """
    made: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadArgument(f"{text!r} is not NAME=VALUE.")
        if name in made:
            raise BadArgument(f"{option} {name} is given twice.")
        made[name] = value
    return made


def lines(steps: Sequence[Step]) -> list[Text]:
    """Steps as people read them: a command or statement each, with its details."""
    made = []
    for step in steps:
        is_ours = step.command.startswith("snaptide ")
        where = "" if is_ours else f"  -- at {step.site}"
        made.append(Text.assemble(step.command, (where, "dim")))
        made += [Text(f"    {line}", style="dim") for line in step.details]
    return made


def aside(extra: Sequence[Step], notes: Sequence[str]) -> list[Text]:
    """What is left alone, and said."""
    made = [Text(f"Note: {note}.") for note in notes]
    if extra:
        head = "The file does not name these; with --prune, apply does:"
        made += [Text(head), *lines(extra)]
    return made


def _told(found: Plan) -> Group:
    parts = lines(found.steps)
    if found.refused:
        head = f"Nothing changes this in place at {found.site}:"
        parts += [Text(head, style="bold red")]
        parts += [Text(f"  {one}") for one in found.refused]
    if not parts:
        parts = [Text(f"{found.site} is what the file says: nothing to do.")]
    return Group(*parts, *aside(found.extra, found.notes))
