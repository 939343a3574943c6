"""Asks the user before a command deletes for good."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from snaptide.cli.failures import ExitCode
from snaptide.errors import BadArgument

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; for scripts.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Return if the user agrees, or agreed on the command line.

    Parameters:
        question: says what is about to be deleted, with counts.
        yes: the user gave `--yes`.

    Raises:
        BadArgument: there is no terminal to ask at.
        typer.Exit: the user said no; nothing is done.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadArgument(f"{question} There is no terminal to ask at: use --yes.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(ExitCode.FAILED)
