"""`snaptide group error-mode`, `quiet` and `unquiet`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

import groups
from deferred.options import ErrorAction
from snaptide.cli.arguments import Json, SiteName
from snaptide.cli.group import GroupName, MasterName, app, listed
from snaptide.cli.output import facts, show
from snaptide.cli.program import Program


class ErrorMode(StrEnum):
    """What becomes of a transaction that a master cannot apply, in Ingres' words."""

    SKIP_TRANSACTION = "skip-transaction"
    SKIP_ROW = "skip-row"
    QUIET_DATABASE = "quiet-database"
    QUIET_SERVER = "quiet-server"


_ACTIONS = {
    ErrorMode.SKIP_TRANSACTION: ErrorAction.QUEUE,
    ErrorMode.SKIP_ROW: ErrorAction.SKIP_ROW,
    ErrorMode.QUIET_DATABASE: ErrorAction.QUIET_DATABASE,
    ErrorMode.QUIET_SERVER: ErrorAction.QUIET_SERVER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Whose pushes to a master are paused, or go on."""

    master: str
    quiet: bool
    senders: list[str]


@app.command()
def error_mode(
    ctx: typer.Context,
    site: SiteName,
    group: GroupName,
    mode: Annotated[ErrorMode, typer.Argument(metavar="MODE", show_default=False)],
    json: Json = False,
) -> None:
    """Choose what becomes of a transaction that a master cannot apply.

    skip-transaction parks it, with those that depend on it, in the error queue there;
    skip-row parks its rows in conflict, and applies the others; quiet-database pauses
    the pushes to that master, quiet-server all pushes of the site that pushed.

    Example: snaptide group error-mode hq airline skip-row
    """
    program = Program.of(ctx)
    changed = groups.set_error_action(program.site(site), group, _ACTIONS[mode])
    show(program, changed, lambda: listed([changed]))


@app.command()
def quiet(
    ctx: typer.Context,
    site: SiteName,
    group: GroupName,
    master: MasterName,
    json: Json = False,
) -> None:
    """Pause all pushes of a group's masters to one of them.

    Example: snaptide group quiet hq airline lax
    """
    _set(ctx, site, group, master, quiet=True)


@app.command()
def unquiet(
    ctx: typer.Context,
    site: SiteName,
    group: GroupName,
    master: MasterName,
    json: Json = False,
) -> None:
    """Let the pushes to a master go on.

    Example: snaptide group unquiet hq airline lax
    """
    _set(ctx, site, group, master, quiet=False)


def _set(
    ctx: typer.Context, site: str, group: str, master: str, *, quiet: bool
) -> None:
    program = Program.of(ctx)
    senders = groups.set_quiet(program.site(site), group, master, quiet=quiet)
    report = Quiet(master=master, quiet=quiet, senders=senders)
    show(program, report, lambda: facts(report))
