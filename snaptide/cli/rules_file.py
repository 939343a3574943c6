"""`snaptide rules export`, `diff` and `apply`: keep rules in a file."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from masters.errors import BadRulebook
from masters.rules import rulebook
from snaptide import toml
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.output import cell, show
from snaptide.cli.plan import Set, parameters
from snaptide.cli.program import Program
from snaptide.cli.rules import app
from snaptide.errors import BadArgument
from snaptide.plan.rules import rules_for
from snaptide.plan.source import Source

RulesFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A TOML file, as snaptide rules export prints it, or that of a site.",
    ),
]

KeepOthers = Annotated[
    bool,
    typer.Option(
        "--keep-others", help="Tables that the file does not name keep their rules."
    ),
]


@app.command()
def export(program: Program, site: SiteArgument) -> None:
    """Print all rules of a master as a file that you can keep under version control.

    Example: snaptide rules export hq > rules.toml
    """
    book = rulebook.export(site)
    if program.json:
        show(program, book, lambda: "")
    else:
        sys.stdout.write(toml.written(book))


@app.command()
def diff(
    program: Program,
    site: SiteArgument,
    file: RulesFile,
    keep_others: KeepOthers = False,
    values: Set = None,
) -> None:
    """Show what a file of rules would change; ends with 3 if anything.

    Example: snaptide rules diff hq rules.toml
    """
    changes = rulebook.diff(
        site, read_rules(file, site.name, values), keep_others=keep_others
    )
    show(program, changes, lambda: "\n".join(map(cell, changes)) or "no change")
    end_if(attention=changes)


@app.command()
def apply(
    program: Program,
    site: SiteArgument,
    file: RulesFile,
    keep_others: KeepOthers = False,
    values: Set = None,
) -> None:
    """Make the rules of a master those of a file, in one transaction.

    Example: snaptide rules apply hq rules.toml
    """
    changes = rulebook.apply(
        site,
        read_rules(file, site.name, values),
        f"apply {file.name}",
        keep_others=keep_others,
    )
    show(program, changes, lambda: "\n".join(map(cell, changes)) or "no change")


def read_rules(
    file: Path, master: str, values: list[str] | None = None
) -> dict[str, Any]:
    """Read the document in a file of rules; of a site's file, its rules for a master.

    Raises:
        BadRulebook: the file cannot be read, or is not TOML.
        BadSiteFile: see `rules_for`.
    """
    try:
        text = file.read_text("utf-8")
        found = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadRulebook(f"{file}: {error}", file=str(file)) from error
    if "site" in found:
        source = Source.of(str(file), text)
        return {"tables": rules_for(master, found, source, parameters(values))}
    if values:
        raise BadArgument(f"{file} has no parameters: it is not the file of a site.")
    return found
