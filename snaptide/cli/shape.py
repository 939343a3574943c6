"""`snaptide shape`: the columns in which sites show a master's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

import snapshots
from sites import names
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.errors import BadArgument

app = Verbs()

MasterTable = Annotated[
    str, typer.Argument(metavar="TABLE", help="table or schema.table")
]


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
    one is away. Below stand the lenses of the tables (shape map).

    Example: snaptide shape list hq flights
    """
    found = snapshots.list_shapes(site, name)
    columns = ["table", "shape", "the master has", "site", "snapshot", "waiting"]
    columns += ["parked", "follows ddl", "why not"]
    lenses = [Text(line) for line in _lenses(found)]
    show(program, found, lambda: Group(table(columns, list(_rows(found))), *lenses))
    end_if(unreachable=any(one.number is None for one in found))


@app.command("map")
def map_(
    program: Program,
    site: SiteArgument,
    name: MasterTable,
    gone: Annotated[
        list[str],
        typer.Option(
            "--gone", help="A column that is, or will be, dropped; repeatable."
        ),
    ],
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NEW=SQL",
            help="What a new column is, of the old ones and those that stay; "
            "repeatable.",
        ),
    ],
    back: Annotated[
        list[str],
        typer.Option(
            "--back",
            metavar="OLD=SQL",
            help="What an old column is, of those that are there; repeatable.",
        ),
    ],
) -> None:
    """Declare a lens: new columns of a table take the place of old ones.

    SITE is the master. Do it before the old columns are dropped; it takes effect when
    they are. What sites that still show them change is then lifted to the new columns.
    Ends with 4 if a site did not say whether its condition uses one of them.

    Example: snaptide shape map hq passengers --gone full_name --set
    "first=split_part(full_name, ' ', 1)" --set "last=split_part(full_name, ' ', 2)"
    --back "full_name=first || ' ' || last"
    """
    report = snapshots.map_shape(
        site,
        name,
        gone=[*map(names.plain, gone)],
        sets=expressions("--set", sets),
        backs=expressions("--back", back),
    )
    show(program, report)
    end_if(unreachable=report.away)


@app.command()
def drop(
    program: Program,
    site: SiteArgument,
    name: MasterTable,
    column: Annotated[str, typer.Argument(help="an old column of the lens")],
    force: Annotated[
        bool,
        typer.Option("--force", help="Also if sites may have changes that need it."),
    ] = False,
) -> None:
    """Drop an old shape: its lens goes, and changes of its columns are parked.

    SITE is the master. It is refused as long as changes wait at a site that shows the
    columns, or are parked, or a site is away.

    Example: snaptide shape drop hq passengers full_name
    """
    snapshots.drop_shape(site, name, names.plain(column), force=force)


def expressions(option: str, given: Sequence[str]) -> dict[str, str]:
    """The expressions of an option by their columns.

    Raises:
        BadArgument: one is not COLUMN=SQL, or a column is there twice.
    """
    found: dict[str, str] = {}
    for one in given:
        name, *rest = names.divided(one, "=", 1)
        if not rest or names.plain(name) in found:
            raise BadArgument(f"{option} {one}: write COLUMN=SQL, each COLUMN once.")
        found[names.plain(name)] = rest[0]
    return found


def _lenses(found: list[snapshots.Shape]) -> Iterator[str]:
    for shape in found:
        for one in shape.lenses if not shape.differs else ():
            made = "; ".join(f"{name} = {text}" for name, text in one.sets.items())
            shown = "; ".join(f"{name} = {text}" for name, text in one.backs.items())
            when = "" if one.in_effect else ", once they are gone"
            yield (
                f"{shape.table}: for sites that show {', '.join(one.gone)}{when}: "
                f"{made}. They are shown {shown}."
            )


def _rows(found: list[snapshots.Shape]) -> Iterator[tuple[object, ...]]:
    for shape in found:
        differs = "; ".join(shape.differs) or ("the same" if shape.number else None)
        its = shape.table, shape.number, differs
        for one in shape.snapshots:
            waits = one.waiting, one.parked
            yield (*its, one.site, one.snapshot, *waits, one.follows, one.why)
        if not shape.snapshots:
            yield (*its, None, None, None, None, None, "")
