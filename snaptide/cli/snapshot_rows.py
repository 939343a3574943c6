"""`snaptide snapshot held`, `refreshes` and `kept`: what refreshes left, and did."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group

import snapshots
from snaptide import ways
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.confirm import Yes, confirm
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.errors import BadArgument
from snaptide.units import duration

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="A refresh group.")]


def held(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    limit: Annotated[int, typer.Option(min=1, help="At most this many rows.")] = 100,
) -> None:
    """List the rows of a refresh group that refreshes have left alone, and why.

    Counts are exact. The next refresh looks at these rows again.

    Example: snaptide snapshot held jfk airport
    """
    found = snapshots.list_held(site, group, limit=limit)
    counts = [(one.snapshot, one.by, one.rows) for one in found.counts]
    rows = [(one.snapshot, ", ".join(one.key), one.by, one.why) for one in found.rows]
    title = f"{len(rows):,} of {found.total:,} rows"
    show(
        program,
        found,
        lambda: Group(
            table(["snapshot", "held by", "rows"], counts),
            "",
            table(["snapshot", "key", "held by", "more"], rows, title),
        ),
    )


COLUMNS = ["ended", "outcome", "methods", "ways", "times", "took", "steps"]
COLUMNS += ["inserted", "updated", "deleted", "held", "problem"]


def refreshes(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 20,
) -> None:
    """List the last refreshes of a refresh group, the latest first.

    A site keeps a hundred of a group. In a row, those that found nothing new, or
    failed with the same error, are one.

    Example: snaptide snapshot refreshes jfk airport
    """
    found = snapshots.list_refreshes(site, group, limit=limit)
    rows = [
        (
            one.ended_at,
            one.outcome,
            one.methods,
            "\n".join(ways.said(one.ways)) or "-",
            one.refreshes,
            duration(one.seconds),
            {step: duration(seconds) for step, seconds in one.steps.items()},
            one.inserted,
            one.updated,
            one.deleted,
            one.held_back,
            one.error,
        )
        for one in found
    ]
    show(program, found, lambda: table(COLUMNS, rows))


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
