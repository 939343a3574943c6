"""`snaptide group`: administers replication groups, their tables and masters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

import groups
from groups import Group, GroupReport, Status, TargetType
from groups.relay.holds import message
from groups.show import MasterReport
from snaptide.cli.arguments import SiteArgument, complete_site
from snaptide.cli.failures import end_if
from snaptide.cli.log import with_triggers
from snaptide.cli.output import cell, show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.errors import BadArgument

app = Verbs()

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]
MasterName = Annotated[
    str,
    typer.Argument(
        metavar="MASTER", help="The master's name.", autocompletion=complete_site
    ),
]
TableName = Annotated[
    str, typer.Argument(metavar="TABLE", help="table or schema.table")
]
TableNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TABLE]...", help="Default: all of the group."),
]
SameRows = Annotated[
    bool,
    typer.Option("--same-rows", help="Do not compare rows: all masters have the same."),
]
TargetTypeOption = Annotated[
    TargetType,
    typer.Option(
        "--type",
        help="Read-only masters send no changes: a protected one refuses changes "
        "of its users, an unprotected one takes changes without looking for "
        "conflicts.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Go on even if changes on their way are lost.")
]


@app.command()
def create(program: Program, site: SiteArgument, group: GroupName) -> None:
    """Create a group; the site is its master definition site and its first master.

    Example: snaptide group create hq flights
    """
    show_changed(program, groups.create_group(site, group))


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List the groups that a site is a master of.

    Example: snaptide group list hq
    """
    found = groups.list_groups(site)
    show(program, found, lambda: listed(found))


@app.command("show")
def show_(program: Program, site: SiteArgument, group: GroupName) -> None:
    """Show a group and the state of its masters.

    Ends with 3 if a master has a problem, if the group is quiet there, or if its rows
    may differ from those of other masters because of a decision there: snaptide group
    check says which do.

    Example: snaptide group show hq flights
    """
    report = groups.show_group(site, group)
    show(program, report, lambda: _masters(report))
    end_if(
        attention=any(
            one.problem or one.quiet or one.different for one in report.masters
        )
    )


@app.command()
def add_table(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    name: TableName,
    same_rows: SameRows = False,
) -> None:
    """Add a table that all masters have; from now on its changes go to all of them.

    Run it at the master definition site. It creates and copies nothing: all masters
    must already have the table and its rows.

    Example: snaptide group add-table hq flights airports
    """
    added = groups.add_table(site, group, name, same_rows=same_rows)
    found = [f"{one} at {at}" for at, names in added.triggers.items() for one in names]
    show(program, added, lambda: with_triggers(listed([added]), found))


@app.command()
def remove_table(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    name: TableName,
    force: Force = False,
) -> None:
    """Take a table out of a group; it stays at all masters.

    Example: snaptide group remove-table hq flights airports
    """
    show_changed(program, groups.remove_table(site, group, name, force=force))


@app.command()
def add_master(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    master: MasterName,
    via: Annotated[
        str | None,
        typer.Option(
            help="The only master that it exchanges changes with; default: all.",
            autocompletion=complete_site,
        ),
    ] = None,
    target_type: TargetTypeOption = TargetType.FULL_PEER,
    same_rows: SameRows = False,
    copy: Annotated[
        bool,
        typer.Option(
            "--copy", help="Copy the rows; the new master's tables must be empty."
        ),
    ] = False,
    copy_from: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The master to copy from; default: the definition site.",
            autocompletion=complete_site,
        ),
    ] = None,
) -> None:
    """Add a master that has the group's tables, with the same rows or empty.

    Run it at the master definition site. The other masters go on working while it
    copies rows; if the copy is interrupted, run it again, and it starts over.

    Example: snaptide group add-master hq flights lax
    """
    if copy:
        if same_rows or target_type is not TargetType.FULL_PEER:
            raise BadArgument("--copy needs a full peer, and excludes --same-rows.")
        report = groups.join_master(site, group, master, source=copy_from, via=via)
        show(program, report)
        return
    changed = groups.add_master(
        site, group, master, via=via, target_type=target_type, same_rows=same_rows
    )
    show_changed(program, changed)


@app.command()
def remove_master(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    master: MasterName,
    force: Force = False,
) -> None:
    """Take a master out of a group; its tables stay as they are.

    Example: snaptide group remove-master hq flights lax
    """
    show_changed(program, groups.remove_master(site, group, master, force=force))


@app.command("forget")
def forget(
    program: Program, site: SiteArgument, group: GroupName, master: MasterName
) -> None:
    """Take a master that is gone for good out of a group.

    Changes that it has not sent on are lost; if it comes back, its pushes are refused.
    Changes that it sent to one master and not to another stay missing there: compare
    the masters with snaptide group check, and add one that lacks rows again with
    --copy.

    Example: snaptide group forget hq flights lax
    """
    show_changed(program, groups.forget_master(site, group, master))


@app.command()
def leave(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Leave even if the master definition site does not answer."
        ),
    ] = False,
) -> None:
    """Have a site leave a group that has forgotten it; its tables stay as they are.

    Run it at the site that was away. It says how many calls that site had not sent. If
    the definition site was lost while the site joined, GROUP is the id in SNP-526.

    Example: snaptide group leave lax flights
    """
    show(program, groups.leave_group(site, group, force=force))


@app.command()
def drop(
    program: Program, site: SiteArgument, group: GroupName, force: Force = False
) -> None:
    """Drop a group at all its masters; the tables stay as they are.

    Example: snaptide group drop hq flights
    """
    groups.drop_group(site, group, force=force)
    show_facts(program, site=site.name, dropped=group)


def show_changed(program: Program, group: Group) -> None:
    """Print a group as it is now."""
    show(program, group, lambda: listed([group]))


def listed(found: Sequence[Group]) -> Table:
    """A table of groups, one per line."""
    columns = ["group", "definition site", "masters", "tables", "status"]
    rows = [
        (one.name, one.definition_site, one.names, one.tables, one.status)
        for one in found
    ]
    return table(columns, rows)


def _attention(one: MasterReport) -> str:
    """Say why a master has stopped, and which of its rows may differ."""
    if one.problem:
        return one.problem
    different = [
        f"{found.rows or 'all'} rows of {found.table} may differ: {found.why}"
        for found in one.different
    ]
    return "; ".join([*([message(one.quiet)] if one.quiet else []), *different])


def _masters(report: GroupReport) -> Table:
    asked = ""
    if report.status != Status.NORMAL:
        asked = f" by {report.status_by} since {cell(report.status_since)}"
    title = (
        f"{report.group}: {report.status}{asked},"
        f" administered at {report.definition_site};"
        f" tables: {', '.join(report.tables) or 'none'}"
    )
    rows = [
        (
            one.master,
            one.target_type,
            [f"{calls} for {to}" for to, calls in one.waiting.items() if calls],
            one.arrived,
            _attention(one),
        )
        for one in report.masters
    ]
    return table(
        ["master", "target type", "waiting calls", "received", ""], rows, title
    )
