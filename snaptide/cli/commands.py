"""Lists all commands, and defines the options that stand before them.

Every run pays for the imports of this module, so it imports no more than Typer.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from snaptide import VARIABLE
from snaptide.cli.later import LoadedLater, Part

_EPILOG = (
    "Exit status: 0 if all is well, 1 if the command failed, 2 if the command line "
    "is wrong, 3 if it finished but left something to look at (parked errors, "
    "findings), 4 if a site or the broker does not answer."
)


class Commands(LoadedLater):
    """The root of all commands: prints errors that reach it, without a traceback."""

    parts: ClassVar = {
        "site": Part(
            "Sites: the databases that take part.", ["site", "site_diff", "site_retire"]
        ),
        "log": Part("Snapshot logs, which record the changes at a master.", ["log"]),
        "snapshot": Part(
            "Snapshots: writable or read-only copies of master rows.", ["snapshot"]
        ),
        "shape": Part(
            "Shapes: the columns in which sites show a master's tables.", ["shape"]
        ),
        "image": Part(
            "Images: rows of a master in files, which fill snapshots without it.",
            ["image"],
        ),
        "folder": Part(
            "Folders: files that are published with the tables.", ["folder"]
        ),
        "contract": Part(
            "Contracts: how old what a site shows may be, and what it may cost.",
            ["contract"],
        ),
        "publication": Part(
            "Publications: what of a master sites may be given.", ["publication"]
        ),
        "grant": Part(
            "Let a site read a publication of a master, for some values.", ["grant"]
        ),
        "revoke": Part(
            "Let a site read a publication of a master no more.", ["revoke"]
        ),
        "numbers": Part(
            "Numbers that sites lease from the sequences of their masters.",
            ["numbers"],
        ),
        "group": Part(
            "Replication groups: tables that several masters share.",
            [
                "group",
                "group_check",
                "group_rectify",
                "group_errors",
                "group_paths",
                "group_quiesce",
            ],
        ),
        "rules": Part(
            "Rules that find and settle conflicts.",
            ["rules", "rules_file"],
        ),
        "destination": Part(
            "The queues of a site's destinations, and their budgets.", ["destination"]
        ),
        "procedure": Part(
            "The procedures that calls from other sites may run.", ["procedure"]
        ),
        "errors": Part("The error queue of a master.", ["errors"]),
        "conflicts": Part(
            "The record of conflicts that rules settled at a master.", ["conflicts"]
        ),
        "indoubt": Part(
            "In-doubt transactions of synchronous propagation.", ["indoubt"]
        ),
        "schedule": Part(
            "Schedules of pushes, refreshes, purges and checks.", ["schedule"]
        ),
        "plan": Part(
            "Show what would make a site what a file says; ends with 3 if anything.",
            ["plan"],
        ),
        "apply": Part(
            "Make a site what a file says; it may be run again at any time.", ["apply"]
        ),
        "export": Part("Print a site as a file that plan and apply read.", ["export"]),
        "refresh": Part("Refresh a group to one moment of its master.", ["refresh"]),
        "wait": Part(
            "Wait until a site shows what a push has brought to its master.", ["wait"]
        ),
        "check": Part(
            "Compare snapshots with their masters, and explain every difference.",
            ["check", "check_saved"],
        ),
        "rectify": Part(
            "Mend rows of snapshots that differ from the master without a reason.",
            ["rectify"],
        ),
        "ddl": Part(
            "Change columns of master tables, and have sites follow; or list what they "
            "follow.",
            ["ddl"],
        ),
        "push": Part(
            "Push a site's deferred transactions; ends with 3 if some were parked.",
            ["push"],
        ),
        "purge": Part(
            "Purge a site's queue of delivered calls, and its snapshot logs.", ["purge"]
        ),
        "spark": Part("What executors of a Spark cluster need.", ["spark"]),
        "status": Part(
            "Show queues, refreshes, lag, errors, schedules and running work of sites.",
            ["status"],
        ),
        "health": Part(
            "Say where sites breach limits; ends with 3 if anywhere, with 4 if one is "
            "away.",
            ["health"],
        ),
        "notify": Part(
            "Tell hooks what has gone wrong at sites, each thing once.", ["notify"]
        ),
        "history": Part(
            "Show the history of a row at all sites; ends with 3 if a site was away.",
            ["history"],
        ),
        "doctor": Part(
            "Look for problems at sites; ends with 3 if there are any.",
            ["doctor"],
        ),
        "worker": Part(
            "Push what users commit, and run what is scheduled or asked for.",
            ["services"],
            report=False,
        ),
        "beat": Part(
            "Ask for the work that is scheduled.",
            ["services"],
            report=False,
        ),
        "web": Part(
            "Run the console, which shows all sites in a browser.",
            ["web"],
            report=False,
        ),
        "metrics": Part(
            "Serve figures of all sites to Prometheus.", ["metrics"], report=False
        ),
        "user": Part("Users of the console, and what they have done in it.", ["user"]),
        "demo": Part(
            "Run the whole story on embedded servers, with real flights.",
            [".demo.command"],
        ),
    }

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            typer.Exit: after printing an error, with the exit code for it.
        """
        try:
            return super().invoke(ctx)
        except Exception as error:
            from snaptide.cli.failures import end

            end(error, ctx.obj)


app = typer.Typer(
    cls=Commands,
    help="Updatable snapshots for PostgreSQL.",
    epilog=_EPILOG,
    no_args_is_help=True,
    # A traceback would show the values of variables, passwords among them.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


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
            help="The settings file; default: ./snaptide.toml.",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where errors come from.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Updatable snapshots for PostgreSQL: work offline, push, resolve, refresh."""
    from snaptide.cli.program import Program

    program = Program(config=config, debug=debug)
    ctx.obj = program
    ctx.call_on_close(program.close)
