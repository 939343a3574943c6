"""`snaptide snapshot`: administers the snapshots of a site."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text
from rich.tree import Tree

import groups
import snapshots
from sites import names
from snaptide.cli import image, snapshot_columns, snapshot_everywhere, snapshot_rows
from snaptide.cli.apply import create_like
from snaptide.cli.arguments import SiteArgument, complete_site
from snaptide.cli.failures import end_if
from snaptide.cli.output import facts, show, show_facts, table
from snaptide.cli.plan import Set
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.errors import BadArgument

app = Verbs()
app.command("held")(snapshot_rows.held)
app.command("refreshes")(snapshot_rows.refreshes)
app.command("kept")(snapshot_rows.kept)
app.command("load")(image.load)
app.command("alter-all")(snapshot_everywhere.alter_all)
app.command("remove-kept")(snapshot_rows.remove_kept)

Where = Annotated[
    str | None, typer.Option(help="An immutable condition that selects the rows.")
]
Follow = Annotated[
    list[str] | None,
    typer.Option(
        help="Only rows with a parent in the group: a foreign key, by its parent, "
        "column or name; repeatable."
    ),
]
Leaving = Annotated[
    snapshots.Leaving | None,
    typer.Option(help="What becomes of a row that leaves the condition."),
]
Like = Annotated[
    str | None,
    typer.Option(
        metavar="SITE",
        help="Make all snapshots that this site has.",
        autocompletion=complete_site,
    ),
]
Numbers = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=WAY",
        help="How a column gets a value that an insert does not give: lease (the "
        "default of serial, identity and nextval columns), uuidv7 or none; repeatable.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="name or schema.name")]


@app.command()
def create(
    program: Program,
    site: SiteArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="name or schema.name")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="The master site.", autocompletion=complete_site)
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="The master table; default: the one with that name."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The refresh group; default: a new one for it.")
    ] = None,
    where: Where = None,
    follow: Follow = None,
    columns: Annotated[
        str | None, typer.Option(help="The columns, separated by commas; default: all.")
    ] = None,
    updatable: Annotated[
        bool, typer.Option("--updatable", help="Let users change it.")
    ] = False,
    numbers: Numbers = None,
    leaving: Leaving = None,
    like: Like = None,
    values: Set = None,
) -> None:
    """Create a snapshot, which its first refresh fills; or all that another site has.

    With --like, all snapshots of that site are created and filled; run it again if it
    fails. --set gives the value of this site for a column that their conditions compare
    with one.

    Example: snaptide snapshot create jfk flights --master hq --group airport
    --where "origin = 'JFK'" --updatable

    Example: snaptide snapshot create store1 --like store2 --set store=1
    """
    options: dict[str, Any] = {
        "table": table,
        "group": group,
        "where": where,
        "follow": follow or (),
        "columns": snapshot_columns.split(columns),
        "updatable": updatable,
        "numbers": _ways(numbers),
        "leaving": leaving or snapshots.Leaving.DRAIN,
    }
    if like is not None:
        if name or master or leaving or any([*options.values()][:-1]):
            raise BadArgument("--like takes no NAME, and no other option than --set.")
        create_like(program, site.name, like, values)
        return
    if name is None or master is None or values:
        raise BadArgument("Give NAME and --master, or --like with --set.")
    show(program, snapshots.create(site, name, master=master, **options))


@app.command("list")
def list_(
    program: Program,
    site: SiteArgument,
    group: Annotated[
        str | None, typer.Option(help="Only those of this refresh group.")
    ] = None,
) -> None:
    """List the snapshots of a site.

    Example: snaptide snapshot list jfk
    """
    listed = snapshots.list_snapshots(site, group=group)
    behind = any(one.behind for one in listed)
    rows = [
        (
            one.name,
            one.group,
            f"{one.master}:{one.table}",
            one.condition,
            one.updatable,
            one.synchronous,
            one.last_refresh,
            one.undelivered_calls,
            *([one.behind or ""] if behind else []),
        )
        for one in listed
    ]
    columns = [
        "snapshot",
        "group",
        "of",
        "where",
        "updatable",
        "synchronous",
        "refreshed",
        "queued",
        *(["stays behind"] if behind else []),
    ]
    show(program, listed, lambda: table(columns, rows))


@app.command("show")
def show_(program: Program, site: SiteArgument, name: Name) -> None:
    """Show one snapshot, and as a tree the other tables that its condition asks.

    Example: snaptide snapshot show jfk flights
    """
    found = snapshots.describe_snapshot(site, name)
    names = [field.name for field in fields(found) if field.name != "asks"]
    show(program, found, lambda: Group(facts(found, names), *map(_tree, found.asks)))


def _tree(asked: snapshots.AskedTable) -> Tree:
    pairs = zip(asked.columns, asked.key, strict=True)
    label = f"{asked.table} by " + ", ".join(f"{a} = {b}" for a, b in pairs)
    label += "" if asked.required else " (not required)"
    if asked.rows_each is not None:
        label += f", about {asked.rows_each:g} rows for each"
    tree = Tree(Text(label))
    for inner in asked.asks:
        tree.add(_tree(inner))
    return tree


class Propagation(StrEnum):
    """How changes of a site reach the master."""

    SYNCHRONOUS = "synchronous"
    ASYNCHRONOUS = "asynchronous"


@app.command()
def alter(
    program: Program,
    site: SiteArgument,
    name: Name,
    propagation: Annotated[
        Propagation | None,
        typer.Option(
            help="How its whole refresh group sends changes: with the user's commit, "
            "or later by a push."
        ),
    ] = None,
    where: Where = None,
    follow: Follow = None,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Drop the condition: all rows belong.")
    ] = False,
    leaving: Leaving = None,
    numbers: Numbers = None,
    add: snapshot_columns.Add = None,
    drop: snapshot_columns.Drop = None,
    rename: snapshot_columns.Rename = None,
    widen: snapshot_columns.Widen = None,
    columns: snapshot_columns.Columns = None,
) -> None:
    """Change which rows or columns a snapshot has, what becomes of rows that leave, how
    columns are numbered, or how its refresh group propagates changes.

    A new condition (--where, --follow, --all-rows) takes the place of the old one, and
    snapshots that follow this one go on following it. The next refresh compares all
    rows.

    Columns come, go and get the names and wider types that the master has given them,
    while view, grants and queue stay; the next refresh fills new ones. If the condition
    uses a column that is renamed or dropped, give the new one, too.

    Example: snaptide snapshot alter jfk flights --where "origin IN ('JFK', 'LGA')"

    Example: snaptide snapshot alter jfk flights --add-column gate
    """
    altered = any((add, drop, rename, widen)) or columns is not None
    others = sum(one is not None for one in (propagation, leaving, numbers))
    conditions = (where is not None or bool(follow)) + all_rows
    if conditions > 1 or (bool(conditions) or altered) + others != 1:
        raise BadArgument(
            "Give one of --where and --follow, --all-rows, --leaving, --numbers, or "
            "--propagation; or options for columns, also with a condition."
        )
    condition = snapshots.Condition(where=where, follow=follow or ())
    if altered:
        snapshot_columns.alter(
            program,
            site,
            name,
            condition if conditions else None,
            add=add,
            drop=drop,
            rename=rename,
            widen=widen,
            columns=columns,
        )
    elif numbers is not None:
        drawn = snapshots.alter_numbers(site, name, _ways(numbers))
        found = [(one.column, one.method, one.left) for one in drawn]
        show(program, drawn, lambda: table(["column", "by", "left"], found))
    elif leaving is not None:
        described = snapshots.alter_leaving(site, name, leaving)
        show(program, described, lambda: facts(described, ["name", "leaving"]))
    elif propagation is not None:
        synchronous = propagation is Propagation.SYNCHRONOUS
        changed = snapshots.alter_propagation(site, name, synchronous=synchronous)
        show(program, changed)
    else:
        following = snapshots.alter_conditions(site, {name: condition})
        rows = [(one.name, one.condition) for one in following]
        show(program, following, lambda: table(["snapshot", "where"], rows))


@app.command("switch-master")
def switch_master(
    program: Program,
    site: SiteArgument,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The refresh group, or a snapshot.")
    ],
    to: Annotated[
        str, typer.Option(help="The new master.", autocompletion=complete_site)
    ],
) -> None:
    """Refresh a group from another master of its replication group from now on.

    The former master may be away. Queued changes go to the new one, and changes that
    were sent before are not applied twice. Ends with 3 if the former master does not
    know of the switch yet.

    Example: snaptide snapshot switch-master jfk airport --to lax
    """
    report = groups.switch_master(site, group, to=to)
    show(program, report)
    end_if(attention=not report.unregistered)


@app.command()
def drop(
    program: Program,
    site: SiteArgument,
    name: Name,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Drop it even if changes are not delivered or rows are kept, which "
            "are then lost, or the master is away.",
        ),
    ] = False,
) -> None:
    """Drop a snapshot; the master table stays.

    Transactions that were withdrawn stay in the site's error queue.

    Example: snaptide snapshot drop jfk flights
    """
    snapshots.drop(site, name, force=force)
    show_facts(program, site=site.name, dropped=name)


def _ways(numbers: list[str] | None) -> dict[str, str]:
    """By column, the way that was asked for."""
    found = {}
    for one in numbers or ():
        parts = names.divided(one, "=")
        if len(parts) != 2:
            raise BadArgument(f"--numbers {one}: write COLUMN=WAY, as in id=lease.")
        found[names.plain(parts[0])] = parts[1]
    return found
