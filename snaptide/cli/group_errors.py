"""`snaptide group error-action`, `quiet`, `unquiet`: set how a group meets errors."""

from __future__ import annotations

from typing import Annotated

import typer

import groups
from deferred.options import ErrorAction
from sites import Site
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.group import GroupName, MasterName, app, show_changed
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.errors import BadArgument

OnlyGroup = Annotated[
    bool, typer.Option("--only-group", help="Only this group; other groups go on.")
]


@app.command()
def error_action(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    action: Annotated[ErrorAction, typer.Argument(metavar="ACTION")],
) -> None:
    """Choose what a push does with a transaction that a master cannot apply.

    queue parks it, with those that depend on it, in the error queue there; skip_row
    parks its rows in conflict, and applies the others; quiet_group parks it, and holds
    back all changes that arrive for the group there; stop leaves it queued and ends the
    push; quiet_database pauses the pushes to that master, too, quiet_server all pushes
    of the site that pushed.

    Example: snaptide group error-action hq airline skip_row
    """
    show_changed(program, groups.set_error_action(site, group, action))


@app.command()
def quiet(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    master: MasterName,
    only_group: OnlyGroup = False,
    why: Annotated[
        str, typer.Option(help="The reason, shown to others; needs --only-group.")
    ] = "",
) -> None:
    """Pause all pushes of a group's masters to one of them.

    With --only-group other groups go on: changes of this group, from any site, wait in
    the error queue there, with the transactions that depend on them.

    Example: snaptide group quiet hq airline lax --only-group
    """
    if only_group:
        found = groups.quiet_group(site, group, master, why=why)
        show(program, found)
        return
    if why:
        raise BadArgument("--why needs --only-group.")
    _set(program, site, group, master, quiet=True)


@app.command()
def unquiet(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    master: MasterName,
    only_group: OnlyGroup = False,
) -> None:
    """Let the pushes to a master go on.

    With --only-group it applies the transactions that were held back for the group, in
    order, and ends with 3 if some cannot be applied.

    Example: snaptide group unquiet hq airline lax --only-group
    """
    if not only_group:
        _set(program, site, group, master, quiet=False)
        return
    report = groups.unquiet_group(site, group, master)
    rows = [(one.error_id, one.reason) for one in report.left]
    title = f"{group} at {report.master}: {report.applied} applied"
    show(program, report, lambda: table(["left", "why"], rows, title))
    end_if(attention=report.left)


def _set(program: Program, site: Site, group: str, master: str, *, quiet: bool) -> None:
    senders = groups.set_quiet(site, group, master, quiet=quiet)
    show_facts(program, master=master, quiet=quiet, senders=senders)
