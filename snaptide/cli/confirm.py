"""Asks before something goes that nothing brings back."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from snaptide.cli.failures import ExitCode
from snaptide.errors import BadArgument

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; for scripts.")]


def confirm(question: str, *, yes: bool) -> None:
    """Go on where a person agrees, or said so before.

    Parameters:
        question: what is about to go, with counts.
        yes: it was said on the command line.

    Raises:
        BadArgument: there is nobody to ask.
        typer.Exit: the answer was no; nothing is done.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadArgument(f"{question} Nobody is here to answer: say --yes.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(ExitCode.FAILED)
