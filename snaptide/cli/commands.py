"""All commands together, and the options that stand before them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from snaptide.cli import (
    conflicts,
    demo,
    destination,
    doctor,
    errors,
    group,
    group_errors,  # noqa: F401  (more commands of group.app)
    group_paths,  # noqa: F401
    group_quiesce,  # noqa: F401
    history,
    indoubt,
    log,
    procedure,
    purge,
    push,
    refresh,
    rules,
    rules_compared,  # noqa: F401  (more commands of rules.app)
    rules_file,  # noqa: F401
    schedule,
    services,
    site,
    snapshot,
    status,
)
from snaptide.cli.failures import Commands
from snaptide.cli.program import Program
from snaptide.settings import VARIABLE

_EPILOG = (
    "Ends with 0 when all is well, 1 when it failed, 2 when the command line is wrong, "
    "3 when it finished and left something to look at (parked errors, findings), "
    "4 when a site or the broker does not answer."
)

app = typer.Typer(
    cls=Commands,
    help="Updatable snapshots for PostgreSQL.",
    epilog=_EPILOG,
    no_args_is_help=True,
    # A traceback would show the values of variables, passwords among them.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)

for name, part in {
    "site": site.app,
    "log": log.app,
    "snapshot": snapshot.app,
    "group": group.app,
    "rules": rules.app,
    "destination": destination.app,
    "procedure": procedure.app,
    "errors": errors.app,
    "conflicts": conflicts.app,
    "indoubt": indoubt.app,
    "schedule": schedule.app,
}.items():
    app.add_typer(part, name=name, no_args_is_help=True)

for command in (
    refresh.refresh,
    push.push,
    purge.purge,
    status.status,
    history.history,
    doctor.doctor,
    services.worker,
    services.beat,
    demo.demo,
):
    app.command(command.__name__)(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            number = version("snaptide")
        except PackageNotFoundError:
            number = "from a folder that is not installed"
        typer.echo(f"snaptide {number}")
        raise typer.Exit


@app.callback()
def begin(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            envvar=VARIABLE,
            dir_okay=False,
            help="The settings; else ./snaptide.toml.",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where errors come from.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print and end."
        ),
    ] = False,
) -> None:
    """Updatable snapshots for PostgreSQL: work offline, push, resolve, refresh."""
    program = Program(config=config, debug=debug)
    ctx.obj = program
    ctx.call_on_close(program.close)
