"""`snaptide export`: prints a site as a file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from snaptide import toml
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.plan import Exported
from snaptide.plan import export as describe
from snaptide.plan.parameters import setting
from snaptide.plan.step import command_line


def export(
    program: Program,
    site: SiteArgument,
    as_template: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Write ${NAME} for the value that conditions compare the column of "
            "that name with; store means store_id, too; repeatable.",
        ),
    ] = None,
) -> None:
    """Print a site as a file that plan and apply read.

    Example: snaptide export store2 --as-template store > store.toml
    """
    found = describe(site, as_template or ())
    if program.json:
        show(program, found, lambda: "")
    else:
        sys.stdout.write(_written(found, site.name))


def _written(found: Exported, site: str) -> str:
    command = command_line("plan", "FILE", *setting(found.parameters))
    lines = [f"# {site}, as snaptide export printed it: {command}"]
    lines += [f"# A file cannot say: {note}" for note in found.notes]
    return "\n".join([*lines, ""]) + toml.written(found.document)
