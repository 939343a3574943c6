"""`snaptide snapshot alter-all`: the columns of a table's snapshots at all sites."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import snapshots
from sites import names
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.snapshot_columns import Add, Drop, Rename, Widen, renamed
from snaptide.errors import BadArgument


def alter_all(
    program: Program,
    site: SiteArgument,
    name: Annotated[str, typer.Argument(metavar="TABLE", help="table or schema.table")],
    add: Add = None,
    drop: Drop = None,
    rename: Rename = None,
    widen: Widen = None,
) -> None:
    """Alter the columns of all snapshots of a master table, one site after the other.

    SITE is the master. Snapshots that are altered already are left alone, so say it
    again until all are. Ends with 1 if a site refuses, and with 4 if one is away.

    Example: snaptide snapshot alter-all hq flights --add-column gate
    """
    if not (add or drop or rename or widen):
        raise BadArgument("Say which columns are to come, go, or change.")
    found = snapshots.alter_columns_everywhere(
        site,
        name,
        add=[*map(names.plain, add or ())],
        drop=[*map(names.plain, drop or ())],
        rename=renamed(rename or ()),
        widen=[*map(names.plain, widen or ())],
    )
    show(program, found, lambda: _shown(name, found))
    end_if(
        failed=any(one.state == "refused" for one in found),
        unreachable=any(one.state == "away" for one in found),
    )


def _shown(name: str, found: list[snapshots.SiteColumns]) -> RenderableType:
    if not found:
        return Text(f"No snapshot of {name} is registered.")
    rows = [
        (one.site, one.snapshot, one.state, " ".join(filter(None, (one.code, one.why))))
        for one in found
    ]
    left_out = [
        Text(f"{one.site}: left out of {one.snapshot}: {what}")
        for one in found
        for what in one.left_out
    ]
    return Group(table(["site", "snapshot", "state", "why"], rows), *left_out)
