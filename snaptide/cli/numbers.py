"""`snaptide numbers`: the numbers that sites have leased, and those leased to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import masters
import snapshots
from sites import Site
from snaptide.cli.arguments import SiteArgument, SiteNames
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs

app = Verbs()

ColumnName = Annotated[
    str, typer.Argument(metavar="COLUMN", help="table.column or schema.table.column")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteNumbers:
    """The numbers of a site: those that it draws, and those that it has leased out."""

    site: str
    draws: list[snapshots.Numbers]
    leased: list[masters.LeasedNumbers]


@app.command("list")
def list_(program: Program, sites: SiteNames = None) -> None:
    """List the numbers that sites have left, and what their masters have leased out.

    Example: snaptide numbers list jfk hq
    """
    found = [_of(site) for site in program.chosen(sites)]
    show(program, found, lambda: _tables(found))


@app.command()
def lease(
    program: Program,
    site: SiteArgument,
    column: ColumnName,
    numbers: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many; default: as many as a push or refresh brings."
        ),
    ] = None,
) -> None:
    """Lease more numbers for a column now, as before a bulk load.

    Example: snaptide numbers lease jfk orders.id --numbers 100000
    """
    show(program, snapshots.lease_numbers(site, column, numbers=numbers))


@app.command("return")
def return_(program: Program, site: SiteArgument, column: ColumnName) -> None:
    """Give the numbers that are left back to the master, which notes it.

    They go to nobody else. The next push or refresh leases as many as usual.

    Example: snaptide numbers return jfk orders.id
    """
    show(program, snapshots.return_numbers(site, column))


def _of(site: Site) -> SiteNumbers:
    return SiteNumbers(
        site=site.name,
        draws=snapshots.list_numbers(site),
        leased=masters.list_leases(site),
    )


def _tables(found: list[SiteNumbers]) -> RenderableType:
    draws = [
        (
            f"{one.site} <- {column.master}",
            f"{column.snapshot}.{column.column}",
            column.method,
            column.left,
            column.lease,
            column.per_day,
            column.lasts_days,
            column.last_error or "",
        )
        for one in found
        for column in one.draws
    ]
    leased = [
        (
            f"{one.site} -> {lease.site}",
            f"{lease.table}.{lease.column}",
            lease.numbers,
            lease.returned,
            lease.last_at,
            None if lease.share is None else f"{lease.share:.0%}",
        )
        for one in found
        for lease in one.leased
    ]
    names = ["draws", "column", "by", "left", "lease", "a day", "lasts days", ""]
    shown = [table(names, draws)]
    if leased:
        columns = ["leased", "column", "numbers", "returned", "last", "sequence used"]
        shown += [Text(), table(columns, leased)]  # type: ignore[list-item]
    return Group(*shown)
