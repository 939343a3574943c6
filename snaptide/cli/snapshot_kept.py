"""`snaptide snapshot kept`: rows that have left a snapshot and are kept at its site."""

from __future__ import annotations

from typing import Annotated

import typer

import snapshots
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.confirm import Yes, confirm
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.errors import BadArgument

Name = Annotated[str, typer.Argument(metavar="NAME", help="name or schema.name")]


def kept(
    program: Program,
    site: SiteArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only of this snapshot.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many rows.")] = 100,
) -> None:
    """List rows that have left snapshots with --leaving keep, the latest first.

    Example: snaptide snapshot kept store1 rental
    """
    found = snapshots.list_kept(site, name, limit=limit)
    rows = [
        (one.id, one.snapshot, ", ".join(one.key), one.left_at, one.reason)
        for one in found
    ]
    columns = ["id", "snapshot", "key", "left", "because of"]
    show(program, found, lambda: table(columns, rows))


def remove_kept(
    program: Program,
    site: SiteArgument,
    name: Name,
    numbers: Annotated[list[int] | None, typer.Argument(metavar="[ID]...")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All rows that have left the snapshot.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Remove rows for good that have left a snapshot and were kept.

    Example: snaptide snapshot remove-kept store1 rental --all
    """
    if bool(numbers) == everything:
        raise BadArgument("Give the numbers of rows, or --all.")
    which = "all" if everything else f"{len(numbers or ())}"
    confirm(f"Remove {which} kept rows of {name} at {site.name} for good?", yes=yes)
    gone = snapshots.remove_kept(site, name, None if everything else numbers)
    show_facts(program, site=site.name, snapshot=name, removed=gone)
