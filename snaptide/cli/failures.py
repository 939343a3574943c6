"""Says what went wrong in a few lines, and ends with a number that scripts can use."""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from deferred.interval import BadInterval
from sites.errors import SiteUnreachable, SnaptideError
from snaptide.asking import as_told, first_line
from snaptide.cli.output import plain
from snaptide.cli.program import Program
from snaptide.errors import BadArgument, NoBroker


class ExitCode(IntEnum):
    """What the program ends with."""

    DONE = 0
    #: A SnaptideError; nothing, or not all, was done.
    FAILED = 1
    #: The command line is wrong; Typer finds most of it.
    USAGE = 2
    #: Done, and there is something to look at: parked errors, findings.
    ATTENTION = 3
    #: A site or the broker does not answer.
    UNREACHABLE = 4


def end(error: Exception, run: object) -> NoReturn:
    """End a run that met an error.

    Parameters:
        run: the `Program`, if the command line came so far.

    Raises:
        typer.Exit: with the number of the error, which was told.
        Exception: the error itself: Typer tells of it, or it is looked into.
    """
    program = run if isinstance(run, Program) else Program()
    if program.debug or not _is_ours_to_tell(error):
        raise error
    told = as_told(error)
    tell(told, as_json=program.json)
    raise typer.Exit(_exit_code(told)) from None


def tell(error: SnaptideError, *, as_json: bool) -> None:
    """Print code, what happened and what to do, on the error output."""
    if as_json:
        report = {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "facts": plain(error.facts),
        }
        sys.stderr.write(json.dumps({"error": report}, ensure_ascii=False) + "\n")
        return
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble((error.code, "bold red"), "  ", error.message))
    if error.__cause__ is not None:
        console.print(Text(f"  why: {first_line(error.__cause__)}"))
    if error.hint:
        console.print(Text.assemble(("  hint: ", "green"), error.hint))


def _is_ours_to_tell(error: Exception) -> bool:
    # Typer tells its own (usage, --help, exit), and must get them to do so.
    return not type(error).__module__.startswith("typer") and not isinstance(
        error, (BrokenPipeError, EOFError)
    )


def _exit_code(error: SnaptideError) -> ExitCode:
    if isinstance(error, BadArgument | BadInterval):
        return ExitCode.USAGE
    unreachable = isinstance(error, SiteUnreachable | NoBroker)
    return ExitCode.UNREACHABLE if unreachable else ExitCode.FAILED
