"""`snaptide shape`: the columns in which sites show a master's tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

import snapshots
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs

app = Verbs()


@app.command("list")
def list_(
    program: Program,
    site: SiteArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="table or schema.table")
    ] = None,
) -> None:
    """List the shapes of a master's tables, who shows each, and what waits.

    SITE is the master. Each site is asked for the columns that it has; ends with 4 if
    one is away.

    Example: snaptide shape list hq flights
    """
    found = snapshots.list_shapes(site, name)
    columns = ["table", "shape", "the master has", "site", "snapshot", "waiting"]
    columns += ["parked", "why not"]
    show(program, found, lambda: table(columns, list(_rows(found))))
    end_if(unreachable=any(one.number is None for one in found))


def _rows(found: list[snapshots.Shape]) -> Iterator[tuple[object, ...]]:
    for shape in found:
        differs = "; ".join(shape.differs) or ("the same" if shape.number else None)
        its = shape.table, shape.number, differs
        for one in shape.snapshots:
            waits = one.waiting, one.parked
            yield (*its, one.site, one.snapshot, *waits, one.why)
        if not shape.snapshots:
            yield (*its, None, None, None, None, "")
