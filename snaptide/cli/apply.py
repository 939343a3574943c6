"""`snaptide apply`: makes a site what a file says."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from sites.words import counted
from snaptide.cli.failures import end_if
from snaptide.cli.output import console, show
from snaptide.cli.plan import Set, SiteFileName, aside, lines, parameters
from snaptide.cli.program import Program
from snaptide.plan import Applied, Step, like, read
from snaptide.plan import apply as make

Prune = Annotated[
    bool,
    typer.Option(
        "--prune", help="Also drop, remove and revoke what the file does not name."
    ),
]


AllowMassDelete = Annotated[
    bool,
    typer.Option(
        "--allow-mass-delete",
        help="Let refreshes take any share of a snapshot's rows away.",
    ),
]


def apply(
    program: Program,
    file: SiteFileName,
    values: Set = None,
    prune: Prune = False,
    allow_mass_delete: AllowMassDelete = False,
) -> None:
    """Make a site what a file says; it may be run again at any time.

    It does what snaptide plan shows, line by line. If a step fails, correct what its
    error names and run the command again: it does the rest. Ends with 3 if its refresh
    left something to look at, or if the site was changed meanwhile.

    Example: snaptide apply store.toml --set store=3
    """
    described = read(file, parameters(values))
    done = make(
        program.directory,
        described,
        prune=prune,
        allow_mass_delete=allow_mass_delete,
        on_step=None if program.json else print_step,
    )
    show(program, done, lambda: end_of(done))
    _end_with(done)


def create_like(
    program: Program, site: str, other: str, values: list[str] | None
) -> None:
    """Make the snapshots of another site, and print the steps."""
    done = like(
        program.directory,
        site,
        other,
        parameters(values),
        on_step=None if program.json else print_step,
    )
    show(program, done, lambda: _end_of_like(done))
    _end_with(done)


def _end_of_like(done: Applied) -> Group:
    return Group(
        *(Text(f"Note: {note}.") for note in (*done.attention, *done.notes)),
        Text(f"{done.site} has them: {said(done)}."),
    )


def _end_with(done: Applied) -> None:
    end_if(attention=done.attention or done.left)


def said(done: Applied) -> str:
    """How many steps were done, in words."""
    count = len(done.steps)
    return f"{counted(count, 'step')} done" if count else "nothing to do"


def print_step(step: Step) -> None:
    """Print a step before it is done."""
    console().print(Group(*lines([step])))


def end_of(done: Applied) -> Group:
    """The last lines for people, below the steps."""
    if done.left:
        told = Group(
            Text(f"{done.site} is not yet what the file says: {said(done)}. Left:"),
            *lines(done.left),
        )
    else:
        told = Group(Text(f"{done.site} is what the file says: {said(done)}."))
    return Group(told, *aside(done.extra, (*done.attention, *done.notes)))
