"""Prints an error in a few lines, and ends with an exit code that scripts can use."""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from deferred.errors import BadOption
from deferred.interval import BadInterval
from sites.errors import SiteUnreachable, SnaptideError
from snaptide.asking import as_told, first_line
from snaptide.cli.output import plain
from snaptide.cli.program import Program
from snaptide.errors import BadArgument, NoBroker


class ExitCode(IntEnum):
    """The exit codes of the program."""

    DONE = 0
    #: An error; the command did nothing, or only a part.
    FAILED = 1
    #: The command line is wrong; Typer finds most such mistakes.
    USAGE = 2
    #: The command finished, but something needs attention: parked errors, findings.
    ATTENTION = 3
    #: A site or the broker does not answer.
    UNREACHABLE = 4


def end_if(
    *, failed: object = False, unreachable: object = False, attention: object = False
) -> None:
    """End the command with the code of the first of these that is true, if one is.

    Raises:
        typer.Exit.
    """
    if failed:
        raise typer.Exit(ExitCode.FAILED)
    if unreachable:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if attention:
        raise typer.Exit(ExitCode.ATTENTION)


def end(error: Exception, run: object) -> NoReturn:
    """End a run that met an error.

    Parameters:
        run: the `Program`, if the command line was read so far.

    Raises:
        typer.Exit: after printing the error, with the exit code for it.
        Exception: the error itself, if Typer prints it or the user asked to debug.
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
    why = first_line(error.__cause__) if error.__cause__ is not None else ""
    if why not in error.message:
        console.print(Text(f"  why: {why}"))
    if error.hint:
        console.print(Text.assemble(("  hint: ", "green"), error.hint))


def _is_ours_to_tell(error: Exception) -> bool:
    # Typer handles its own (usage, --help, exit), and must receive them to do so.
    return not type(error).__module__.startswith("typer") and not isinstance(
        error, (BrokenPipeError, EOFError)
    )


def _exit_code(error: SnaptideError) -> ExitCode:
    if isinstance(error, BadArgument | BadInterval | BadOption):
        return ExitCode.USAGE
    unreachable = isinstance(error, SiteUnreachable | NoBroker)
    return ExitCode.UNREACHABLE if unreachable else ExitCode.FAILED
